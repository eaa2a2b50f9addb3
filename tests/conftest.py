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


@pytest.fixture(scope="session")
def translator():
    """Untrained, but whole: a tiny model with random weights, a tokenizer and a beam."""
    from tfx_transformer.data import train_tokenizer
    from tfx_transformer.models import create_model
    from tfx_transformer.translator import Translator

    keras.utils.set_random_seed(0)
    texts = ["red cat", "old big dog", "blue dog and red cat"] * 20
    tokenizer = train_tokenizer(texts, 30, byte_fallback=False)
    model = create_model("transformer", "tiny", vocab_size=tokenizer.vocab_size, tie="none")
    model.build({"source": (None, None), "target": (None, None)})
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    decoder = {"kind": "beam", "width": 3, "n_best": 2}
    return Translator(model, tokenizer, tokenizer, decoder, max_length=12)
