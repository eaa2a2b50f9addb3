import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.models import create_model

IMAGES = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype("float32")


@pytest.fixture
def model(randomize):
    model = create_model("pixel_transformer", "test", num_classes=5)
    return randomize(model, scale=0.3)


def test_every_pixel_of_the_downsampled_image_is_a_token(model):
    maps = model.attention_maps(IMAGES)
    assert {name: tuple(x.shape) for name, x in maps.items()} == {
        "block_0/self": (2, 4, 16, 16),
        "block_1/self": (2, 4, 16, 16),
    }


def test_downsampling_averages_squares(model):
    small = IMAGES.reshape(2, 4, 2, 4, 2, 3).mean(axis=(2, 4))
    expected = ops.convert_to_numpy(model.vit(small))
    np.testing.assert_allclose(ops.convert_to_numpy(model(IMAGES)), expected, atol=1e-5)


def test_it_is_a_vit_with_patches_of_one_pixel(model):
    options = {"image_size": 4, "patch_size": 1, "num_tokens": 0}
    vit = create_model("vit", "test", num_classes=5, **options)
    assert model.count_params() == vit.count_params()


def test_it_learns_one_batch(model):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    losses = [float(model.train_on_batch(IMAGES, np.array([1, 3]))) for _ in range(30)]
    assert losses[-1] < 0.2 * losses[0]


def test_the_grid_size_divides_the_image_size():
    with pytest.raises(ValueError, match="grid_size must divide image_size; got grid_size=3"):
        create_model("pixel_transformer", "test", num_classes=5, grid_size=3)
