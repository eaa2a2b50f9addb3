"""For all tests: TensorFlow without its notes, the same random numbers, and noise to draw."""

import numpy as np
import pytest

from tfx_transformer.quiet import import_tensorflow

import_tensorflow()

import keras  # noqa: E402

RUNS = (  # trained once for all tests, and on one worker
    "run",
    "classify_run",
    "caption_run",
    "language_run",
    "mask_run",
    "classify_text_run",
)


def pytest_collection_modifyitems(items):
    """Parallel workers take the tests of a file together, but those of a run wherever they are."""
    for item in items:
        needed = [name for name in RUNS if name in item.fixturenames]
        item.add_marker(
            pytest.mark.xdist_group(needed[0] if needed else item.nodeid.split("::")[0])
        )


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


@pytest.fixture(scope="session")
def captioner():
    """The same for pictures."""
    from tfx_transformer.captioner import Captioner
    from tfx_transformer.data import train_tokenizer
    from tfx_transformer.models import create_model

    keras.utils.set_random_seed(0)
    texts = ["a red cat", "an old big dog", "blue dog and red cat"] * 20
    tokenizer = train_tokenizer(texts, 24, byte_fallback=False)
    model = create_model("show_attend_tell", "tiny", vocab_size=tokenizer.vocab_size)
    model.build({"image": (None, 32, 32, 3), "target": (None, None)})
    rng = np.random.default_rng(2)
    for weight in model.trainable_weights:
        weight.assign(0.7 * rng.normal(size=weight.shape))
    decoder = {"kind": "beam", "width": 3, "n_best": 2}
    return Captioner(model, tokenizer, decoder, max_length=9, crop_ratio=0.8)


@pytest.fixture(scope="session")
def language_model():
    """Untrained, but whole: a tiny GPT with random weights, and a tokenizer of letters."""
    from tfx_transformer.data.language import language_tokenizer
    from tfx_transformer.models import create_model

    keras.utils.set_random_seed(0)
    tokenizer = language_tokenizer("the old man and the sea,\na dog, 여우\n" * 9)
    model = create_model("gpt", "tiny", vocab_size=tokenizer.vocab_size, depth=1, max_length=20)
    model.build((None, None))
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        if "last_norm" not in weight.path:  # a random offset would always favour one letter
            weight.assign(rng.normal(size=weight.shape))
    return model, tokenizer
