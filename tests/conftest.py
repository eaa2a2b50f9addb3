"""For all tests: TensorFlow without its messages, fixed seeds, and untrained pipelines."""

import gc
import io

import numpy as np
import pytest

from tfx_transformer.runtime import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.util import tf_stack  # noqa: E402

# Graphs run once in a test: to optimize them takes longer than to run them. The processes that
# tests start, and so all exports that are loaded in a new process, run optimized graphs.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
# Small operations are faster in one thread, and the processes of pytest share the cores.
tf.config.threading.set_intra_op_parallelism_threads(1)
# Traced graphs are millions of objects, which the collector would visit again and again.
gc.set_threshold(100_000, 20, 50)
# Every op of a graph keeps the stack that made it, for error messages: a fifteenth of all time.
_STACK = tf_stack.extract_stack()
tf_stack.extract_stack = lambda *_, **__: _STACK

RUNS = (  # trained once for all tests, in one worker
    "run",
    "classify_run",
    "caption_run",
    "language_run",
    "mask_run",
    "classify_text_run",
    "answer_run",
    "draw_run",
)
LONG = ("tests/train", "tests/test_docs", "tests/test_readme", "tests/contracts/test_untrusted")
TEXTS = ["red cat", "old big dog", "blue dog and red cat"] * 20
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "cat", "dog", "big", "##s", "blue"]
CLASS_NAMES = ["Katze", "개", "犬", "dog"]


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in the same hook
def pytest_collection_modifyitems(items):
    """Tests of a file run in the same worker, and all tests of a run; long ones come first."""
    for item in items:
        needed = [name for name in RUNS if name in item.fixturenames]
        item.add_marker(
            pytest.mark.xdist_group(needed[0] if needed else item.nodeid.split("::")[0])
        )
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(0)


@pytest.fixture
def draw():
    """Returns normal noise of a shape, different at each call."""
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape).astype("float32")


@pytest.fixture
def randomize(draw):
    """Fills every weight with noise, after a call if inputs are given: no zeros hide a bug."""

    def fill(layer, *inputs, scale=0.4):
        if inputs:
            layer(*inputs)
        for weight in layer.trainable_weights:
            weight.assign(scale * draw(*weight.shape))
        return layer

    return fill


@pytest.fixture(scope="session")
def items():
    """Inputs for each kind of pipeline; there is a fixture with the name of each kind."""
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (31, 20, 3), "uint8")
    files = [io.BytesIO(), io.BytesIO()]
    Image.fromarray(pixels).save(files[0], "png")
    Image.fromarray(pixels.repeat(3, axis=1)).save(files[1], "jpeg")
    images = [files[0].getvalue(), b"not an image", files[1].getvalue()]
    texts = ["red cat", "", "old big dog", "blue " * 50]
    return {
        "captioner": images,
        "classifier": images,
        "generator": ["the old", "", "a dog", "여우 and\n the"],
        "question_answerer": [
            ("The dog is red. The cat is old.", "Where is the dog?"),
            ("", "Where?"),
            ("A big cat!\n\nThe red dog left. So what? It is big.", ""),
            ("여우.", "who"),
        ],
        "text_classifier": texts,
        "text_to_image": texts,
        "translator": texts,
    }


@pytest.fixture(scope="session")
def translator():
    """Untrained: a small model with random weights, a tokenizer and beam search."""
    from tfx_transformer.data import train_tokenizer
    from tfx_transformer.models import create_model
    from tfx_transformer.pipelines import Translator

    keras.utils.set_random_seed(0)
    tokenizer = train_tokenizer(TEXTS, 30, byte_fallback=False)
    model = create_model("transformer", "test", vocab_size=tokenizer.vocab_size, tie="none")
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    decoder = {"kind": "beam", "width": 3, "n_best": 2}
    return Translator(model, tokenizer, tokenizer, decoder, max_length=12)


@pytest.fixture(scope="session")
def captioner():
    from tfx_transformer.data import train_tokenizer
    from tfx_transformer.models import create_model
    from tfx_transformer.pipelines import Captioner

    keras.utils.set_random_seed(0)
    texts = ["a red cat", "an old big dog", "blue dog and red cat"] * 20
    tokenizer = train_tokenizer(texts, 24, byte_fallback=False)
    model = create_model("show_attend_tell", "test", vocab_size=tokenizer.vocab_size)
    rng = np.random.default_rng(2)
    for weight in model.trainable_weights:
        weight.assign(0.7 * rng.normal(size=weight.shape))
    decoder = {"kind": "beam", "width": 3, "n_best": 2}
    options = {"crop_ratio": 0.8, "normalization": "imagenet"}
    return Captioner(model, tokenizer, decoder, max_length=9, **options)


@pytest.fixture(scope="session")
def classifier():
    from tfx_transformer.models import create_model
    from tfx_transformer.pipelines import Classifier

    model = create_model("vit", "test", num_classes=4)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.5, seed=len(weight.path)))
    return Classifier(model, CLASS_NAMES, crop_ratio=0.8, top_k=3)


@pytest.fixture(scope="session")
def text_classifier():
    """With SentencePiece; `wordpiece_classifier` has the tokenizer of BERT."""
    from tfx_transformer.data import train_tokenizer

    return make_text_classifier(train_tokenizer(TEXTS, 30, byte_fallback=False))


@pytest.fixture(scope="session")
def text_to_image():
    """Untrained: small models with random weights, which decode greedily."""
    from tfx_transformer.data import train_tokenizer
    from tfx_transformer.models import create_model
    from tfx_transformer.models.discrete_vae import DiscreteVAE
    from tfx_transformer.pipelines import TextToImage

    keras.utils.set_random_seed(0)
    tokenizer = train_tokenizer(TEXTS, 30, byte_fallback=False)
    image_model = DiscreteVAE(codebook_size=7, dim=6, depth=1, image_size=8, patch_size=4)
    image_model.build()
    size = tokenizer.vocab_size
    model = create_model("dalle", "test", vocab_size=size, grid=(2, 2), text_length=10)
    rng = np.random.default_rng(0)
    for weight in (*model.trainable_weights, *image_model.trainable_weights):
        if len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape))
    return TextToImage(model, image_model, tokenizer, "greedy")


@pytest.fixture(scope="session")
def wordpiece_classifier():
    from tfx_transformer.data import WordPiece

    return make_text_classifier(WordPiece(PIECES))


def make_text_classifier(tokenizer):
    from tfx_transformer.models import create_model
    from tfx_transformer.pipelines import TextClassifier

    size = tokenizer.vocab_size
    model = create_model("bert", "test", vocab_size=size, depth=1, head="classify", num_classes=4)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.5, seed=len(weight.path)))
    return TextClassifier(model, tokenizer, CLASS_NAMES, max_length=12, top_k=3)


@pytest.fixture(scope="session")
def language_model():
    """Untrained: a small GPT with random weights, and a tokenizer of characters."""
    from tfx_transformer.data.text.language import language_tokenizer
    from tfx_transformer.models import create_model

    keras.utils.set_random_seed(0)
    tokenizer = language_tokenizer("the old man and the sea,\na dog, 여우\n" * 9)
    model = create_model("gpt", "test", vocab_size=tokenizer.vocab_size, depth=1, max_length=20)
    rng = np.random.default_rng(6)
    for weight in model.trainable_weights:
        if "last_norm" not in weight.path:  # a random offset would always favor one character
            weight.assign(rng.normal(size=weight.shape))
    return model, tokenizer


@pytest.fixture(scope="session")
def question_answerer():
    """Untrained: a memory network with random weights."""
    from tfx_transformer.data.text.words import Words
    from tfx_transformer.models import create_model
    from tfx_transformer.pipelines import QuestionAnswerer

    words = Words.of(["The red dog is old.", "where is a big cat left"], ["kitchen", "apple, milk"])
    model = create_model("memory_network", "test", vocab_size=words.vocab_size, max_sentences=3)
    rng = np.random.default_rng(4)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    return QuestionAnswerer(model, words)


@pytest.fixture(scope="session")
def generator(language_model):
    from tfx_transformer.pipelines import Generator

    return Generator(*language_model, "greedy", 8)
