import keras
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train import optimizer as optimizer_module
from tfx_transformer.train.optimizer import (
    find_precision,
    layer_rates,
    make_optimizer,
    recorded_precision,
    with_precision,
)
from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions, save_recipe
from tfx_transformer.train.tasks.translation import TranslationRecipe
from tfx_transformer.training.workers import Workers


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


def recipe_of(precision="auto", **model):
    name = model.pop("name", "transformer")
    return TranslationRecipe(model=ModelOptions(name, **model), precision=precision)


def test_auto_asks_for_the_width_of_the_model(monkeypatch):
    monkeypatch.setattr(optimizer_module, "choose_precision", lambda dim: (f"dim {dim}", "why"))
    assert find_precision(recipe_of(variant="base")) == ("dim 512", "why")
    assert find_precision(recipe_of(variant="base", options={"dim": 64})) == ("dim 64", "why")
    assert find_precision(recipe_of(name="vit")) == ("dim None", "why")
    lstm = recipe_of(name="rnn_seq2seq", variant="test", options={"dim": 512})
    assert find_precision(lstm)[0] == "float32"
    assert find_precision(recipe_of("mixed_float16", variant="base")) == ("mixed_float16", "")


def test_a_continued_run_keeps_the_precision_that_was_chosen(tmp_path):
    auto, chosen = (recipe_of(x, variant="test") for x in ("auto", "mixed_bfloat16"))
    (tmp_path / "checkpoints").mkdir()
    save_recipe(chosen, tmp_path / "recipe.json")
    assert with_precision(auto, tmp_path, Workers()).precision == "float32"  # no steps were made
    (tmp_path / "checkpoints/stopped_00000001.npz").touch()
    assert recorded_precision(auto, tmp_path) == chosen
    assert with_precision(auto, tmp_path, Workers()) == chosen
    explicit = recipe_of("float32", variant="test")
    assert recorded_precision(explicit, tmp_path) == explicit
