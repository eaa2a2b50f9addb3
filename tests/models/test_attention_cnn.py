import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.models import create_model

IMAGES = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
OPTIONS = {
    "convolutions alone": {"between": False},
    "attention between convolutions": {},
    "attention instead of convolutions": {"mix": "local", "between": False},
}


@pytest.fixture(params=sorted(OPTIONS))
def model(request, randomise):
    model = create_model("attention_cnn", "tiny", num_classes=5, **OPTIONS[request.param])
    model(IMAGES)
    return randomise(model, scale=0.3)


def test_it_learns_one_batch(model):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    losses = [float(model.train_on_batch(IMAGES, np.array([1, 3]))) for _ in range(30)]
    assert losses[-1] < 0.2 * losses[0]


def test_other_image_sizes_are_read(model):
    larger = np.random.default_rng(1).normal(size=(1, 12, 10, 3)).astype("float32")
    assert tuple(model(larger).shape) == (1, 5)


def test_attention_is_where_it_was_asked_for():
    def maps(**options):
        model = create_model("attention_cnn", "tiny", num_classes=5, **options)
        return {name: tuple(x.shape) for name, x in model.attention_maps(IMAGES).items()}

    assert maps(between=False) == {}
    assert maps() == {"stage_1_between/self": (2, 2, 16, 16)}
    assert maps(mix="local", between=False) == {
        "stage_0_block_0/self": (2, 2, 64, 9),
        "stage_1_block_0/self": (2, 2, 16, 9),
    }


def test_only_attention_over_the_grid_sees_far_at_once(randomise):
    """A stage of one 3 × 3 block: the opposite corner matters only to attention between."""
    changed = IMAGES.copy()
    changed[:, -1, -1] += 1
    for between, reaches in ((False, False), (True, True)):
        options = {"dims": (8, 12), "between": between}
        model = create_model("attention_cnn", "tiny", num_classes=5, **options)
        model(IMAGES)
        randomise(model, scale=0.3)

        def corner(images, model=model):
            x = images
            for halve, blocks in zip(model.halve, model.stages, strict=True):
                x = halve(x)
                for block in blocks:
                    x, _ = block(x)
            return ops.convert_to_numpy(x)[:, 0, 0]

        assert (np.abs(corner(changed) - corner(IMAGES)).max() > 1e-6) == reaches


def test_published_settings_can_be_built():
    counts = {}
    for variant in ("cnn", "hybrid", "local"):
        model = create_model("attention_cnn", variant, num_classes=10)
        model.build((None, 32, 32, 3))
        counts[variant] = model.count_params()
    assert counts["cnn"] < counts["hybrid"] and counts["local"] < counts["cnn"]


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="unknown mix 'window'; known: convolution, local"):
        create_model("attention_cnn", "tiny", num_classes=5, mix="window")
    with pytest.raises(ValueError, match="dims must hold the width of a stage or more"):
        create_model("attention_cnn", "tiny", num_classes=5, dims=())
