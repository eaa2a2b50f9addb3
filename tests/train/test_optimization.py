import keras
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train.optimization import layer_of, layer_rates, make_optimizer
from tfx_transformer.train.recipe import Optimizer, TranslateRecipe


@pytest.fixture
def model():
    model = create_model("vit", "tiny", num_classes=3, depth=3, name="vit")
    model.build((None, 16, 16, 3))
    return model


def test_each_block_learns_slower_than_the_one_above(model):
    weights = model.trainable_variables
    rates = dict(zip([w.path for w in weights], layer_rates(weights, 0.5), strict=True))
    for path, rate in rates.items():
        part = path.removeprefix("vit/").split("/")[0]
        expected = {"block_2": 0.5, "block_1": 0.25, "block_0": 0.125}
        expected |= {"last_norm": 1, "head_0": 1}
        assert rate == expected.get(part, 0.0625), path
    assert len(set(rates.values())) == 5
    assert layer_rates(weights, 1.0) is None


@pytest.mark.parametrize(
    "path, layer",
    [
        ("a/encoder_2/mlp/kernel", 3),
        ("a/decoder_norm/scale", None),
        ("bert/pooler/kernel", None),
        ("a/table", 0),
    ],
)
def test_a_weight_s_layer_is_read_from_its_path(path, layer):
    assert layer_of(path) == layer


def test_only_kernels_decay(model):
    recipe = TranslateRecipe(
        optimizer=Optimizer(
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


@pytest.mark.parametrize("schedule", ["constant", "cosine", "inverse_sqrt"])
def test_the_rate_and_the_averages_count_updates_not_batches(model, schedule):
    def rates(accumulate):
        own = Optimizer(schedule=schedule, warmup_steps=4, accumulate=accumulate, ema=0.8)
        optimizer = make_optimizer(TranslateRecipe(optimizer=own, steps=20), model)
        assert optimizer.ema_momentum**accumulate == pytest.approx(0.8)
        optimizer._iterations.assign_add(accumulate - 1)  # the batch that ends an update
        found = []
        for _ in range(20):
            found.append(float(optimizer.learning_rate))
            optimizer._iterations.assign_add(accumulate)
        return found

    assert rates(3) == pytest.approx(rates(1), abs=1e-9)
    assert len(set(rates(1))) >= 4
