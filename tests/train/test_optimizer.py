import keras
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train.optimizer import layer_rates, make_optimizer
from tfx_transformer.train.recipe import OptimizerOptions
from tfx_transformer.train.tasks.translation import TranslationRecipe


@pytest.fixture
def model():
    return create_model("vit", "test", num_classes=3, depth=3)


def rates_by_path(model, decay=0.5):
    """(part of the model, path, factor) of each weight."""
    paths = [weight.path for weight in model.trainable_variables]
    rates = layer_rates(model, decay)
    return [(path.split("/")[1], path, rate) for path, rate in zip(paths, rates, strict=True)]


def test_each_block_learns_slower_than_the_one_above(model):
    for part, path, rate in rates_by_path(model):
        expected = {"block_2": 0.5, "block_1": 0.25, "block_0": 0.125}
        expected |= {"last_norm": 1, "head_0": 1}
        assert rate == expected.get(part, 0.0625), path
    assert len({rate for _, _, rate in rates_by_path(model)}) == 5
    assert layer_rates(model, 1.0) is None


def test_a_merge_of_swin_has_the_rate_of_the_block_after_it():
    expected = {"patches": 1 / 16, "patch_norm": 1 / 16, "last_norm": 1, "head": 1}
    expected |= {"block_0": 1 / 8, "block_1": 1 / 4, "merge_1": 1 / 2, "block_2": 1 / 2}
    for part, path, rate in rates_by_path(create_model("swin", "test", num_classes=3)):
        assert rate == expected[part], path


def test_the_decoder_of_a_captioner_has_the_full_rate():
    encoder = {"kind": "vit", "variant": "test", "options": {"image_size": 32}}
    model = create_model("show_attend_tell", "test", vocab_size=11, encoder=encoder)
    expected = {"block_1": 1 / 2, "block_0": 1 / 4, "last_norm": 1}
    for _, path, rate in rates_by_path(model):
        _, is_encoder, part = path.partition("/network/")
        assert rate == (expected.get(part.split("/")[0], 1 / 8) if is_encoder else 1), path


def test_decoder_blocks_come_after_encoder_blocks():
    model = create_model("transformer", "test", vocab_size=11, norm_first=True, depth=1)
    expected = {"decoder_norm": 1, "decoder_0": 1 / 2, "encoder_norm": 1 / 4, "encoder_0": 1 / 4}
    for part, path, rate in rates_by_path(model):
        assert rate == expected.get(part, 1 / 8), path


def test_only_kernels_decay(model):
    recipe = TranslationRecipe(
        optimizer=OptimizerOptions(
            schedule="constant", weight_decay=0.5, learning_rate=0.1, warmup_steps=1
        )
    )
    optimizer = make_optimizer(recipe, model)
    before = [weight.numpy() for weight in model.trainable_variables]
    for _ in range(2):  # the warm-up begins at a rate of zero
        optimizer.apply([keras.ops.zeros_like(weight) for weight in model.trainable_variables])
    for weight, old in zip(model.trainable_variables, before, strict=True):
        shrunk = (abs(weight.numpy()) < abs(old)).any()
        assert shrunk == (weight.name == "kernel"), weight.path
