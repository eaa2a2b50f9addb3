"""For all tests: TensorFlow without its notes, the same random numbers, and noise to draw."""

import numpy as np
import pytest

from tfx_transformer.quiet import import_tensorflow

import_tensorflow()

import keras  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(0)


@pytest.fixture
def draw():
    """Normal noise of a shape, another at each call."""
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape).astype("float32")


@pytest.fixture
def randomise(draw):
    """Fills every weight with noise, after a call if inputs are given: no zeros hide a bug."""

    def fill(layer, *inputs, scale=0.4):
        if inputs:
            layer(*inputs)
        for weight in layer.trainable_weights:
            weight.assign(scale * draw(*weight.shape))
        return layer

    return fill
