"""MLP-Mixer: published parameter counts, its definition in NumPy, and its options."""

import math

import keras
import numpy as np
import pytest

from tfx_transformer.models import create_model

COUNTS = {"s16": 18_528_264, "s32": 19_104_624, "b16": 59_880_472, "b32": 60_293_428}
LARGE = {"l16": 208_196_168, "l32": 206_939_264, "h14": 432_350_952}


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def count(variant):
    return create_model("mlp_mixer", variant, num_classes=1000, initializer="zeros").count_params()


@pytest.mark.parametrize("variant", COUNTS)
def test_the_parameter_counts_are_the_published_ones(variant):
    assert count(variant) == COUNTS[variant]


@pytest.mark.slow
@pytest.mark.parametrize("variant", LARGE)
def test_the_parameter_counts_of_large_variants_are_the_published_ones(variant):
    assert count(variant) == LARGE[variant]


@pytest.fixture
def images(draw):
    return draw(3, 16, 16, 3)


@pytest.fixture
def model(randomize, images):
    return randomize(create_model("mlp_mixer", "test", num_classes=5), images)


def test_it_is_its_definition_in_numpy(randomize, draw):
    images = draw(2, 12, 12, 3)
    model = randomize(create_model("mlp_mixer", "test", num_classes=5, image_size=12), images)
    w = {v.path.split("/", 1)[1]: numpy(v).astype("float64") for v in model.weights}

    def norm(x, name):
        unit = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
        return unit * w[f"{name}/scale"] + w[f"{name}/offset"]

    def dense(x, name):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    def mlp(x, name):
        x = dense(x, f"{name}/up")
        x = x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        return dense(x, f"{name}/down")

    for image, logits in zip(images, numpy(model(images)), strict=True):
        cut = [image[r : r + 4, c : c + 4].reshape(-1) for r in (0, 4, 8) for c in (0, 4, 8)]
        x = np.array(cut) @ w["patches/kernel"].reshape(48, 12) + w["patches/bias"]  # (9, 12)
        for i in range(2):
            x = x + mlp(norm(x, f"block_{i}/self_norm").T, f"block_{i}/token_mlp").T
            x = x + mlp(norm(x, f"block_{i}/mlp_norm"), f"block_{i}/mlp")
        expected = dense(norm(x, "last_norm").mean(0), "head")
        np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_it_learns_one_batch(images):
    model = create_model("mlp_mixer", "test", num_classes=3, drop_path=0.1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.2), loss, jit_compile=False)
    losses = model.fit(images, np.array([2, 0, 1]), epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.1 < losses[0]


def test_drop_path_grows_with_the_depth():
    model = create_model("mlp_mixer", "test", num_classes=5, depth=3, drop_path=0.5)
    np.testing.assert_allclose(
        [block.drop_path_layer.rate for block in model.blocks], [0, 0.25, 0.5]
    )


def test_half_precision_stays_finite(images):
    model = create_model("mlp_mixer", "test", num_classes=5, dtype="mixed_float16")
    logits = model(images)
    assert keras.backend.standardize_dtype(logits.dtype) == "float16"
    assert np.isfinite(numpy(logits)).all()


def test_images_of_another_size_are_refused(model, draw):
    with pytest.raises(ValueError, match=r"image_size=16 high and wide; got images \(2, 16, 20, 3"):
        model(draw(2, 16, 20, 3))


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="patch_size must divide the image's height"):
        create_model("mlp_mixer", "test", num_classes=5, patch_size=5)
    with pytest.raises(ValueError, match="token_mlp_dim must be .*got token_mlp_dim=0"):
        create_model("mlp_mixer", "test", num_classes=5, token_mlp_dim=0)
