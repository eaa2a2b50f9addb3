import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.models import create_model

IMAGES = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")
OPTIONS = {
    "convolutions alone": {"global_attention": False},
    "attention between convolutions": {},
    "attention instead of convolutions": {"mix": "local", "global_attention": False},
}


@pytest.fixture(params=sorted(OPTIONS))
def model(request, randomize):
    model = create_model("attention_cnn", "test", num_classes=5, **OPTIONS[request.param])
    return randomize(model, scale=0.3)


def test_it_learns_one_batch(model):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    losses = [float(model.train_on_batch(IMAGES, np.array([1, 3]))) for _ in range(30)]
    assert losses[-1] < 0.2 * losses[0]


def test_images_may_have_another_size(model):
    larger = np.random.default_rng(1).normal(size=(1, 12, 10, 3)).astype("float32")
    assert tuple(model(larger).shape) == (1, 5)


def test_attention_is_in_the_chosen_layers():
    def maps(**options):
        model = create_model("attention_cnn", "test", num_classes=5, **options)
        return {name: tuple(x.shape) for name, x in model.attention_maps(IMAGES).items()}

    assert maps(global_attention=False) == {}
    assert maps() == {"stage_1_global/self": (2, 2, 16, 16)}
    assert maps(mix="local", global_attention=False) == {
        "stage_0_block_0/self": (2, 2, 64, 9),
        "stage_1_block_0/self": (2, 2, 16, 9),
    }


def test_only_global_attention_reaches_the_opposite_corner(randomize):
    changed = IMAGES.copy()
    changed[:, -1, -1] += 1
    for global_attention in (False, True):
        options = {"dims": (8, 12), "global_attention": global_attention}
        model = create_model("attention_cnn", "test", num_classes=5, **options)
        randomize(model, scale=0.3)

        def corner(images, model=model):
            x = images
            for downsample, blocks in zip(model.downsample, model.stages, strict=True):
                x = downsample(x)
                for block in blocks:
                    x = block(x)
            return ops.convert_to_numpy(x)[:, 0, 0]

        assert (np.abs(corner(changed) - corner(IMAGES)).max() > 1e-6) == global_attention


def test_published_settings_can_be_built():
    counts = {
        variant: create_model("attention_cnn", variant, num_classes=10).count_params()
        for variant in ("cnn", "hybrid", "local")
    }
    assert counts["cnn"] < counts["hybrid"] and counts["local"] < counts["cnn"]


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="unknown mix 'window'; known: convolution, local"):
        create_model("attention_cnn", "test", num_classes=5, mix="window")
    with pytest.raises(ValueError, match="dims must hold the width of a stage or more"):
        create_model("attention_cnn", "test", num_classes=5, dims=())
