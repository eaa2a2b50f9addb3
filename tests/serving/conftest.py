"""A model without weights whose speed a test controls, behind the interface of loaded exports."""

import threading

import pytest
import tensorflow as tf

from tfx_transformer.pipelines.base import GeneratedText
from tfx_transformer.runtime import graph
from tfx_transformer.serving.model import ServedModel
from tfx_transformer.serving.options import ServingOptions


class Toy(tf.Module):
    """Upper case as a "translator": its pieces are the characters.

    Attributes:
        may_run: computations wait while it is not set.
        batches: the texts of every computation.
    """

    kind, result = "translator", GeneratedText

    def __init__(self, suffix="", max_length=40):
        super().__init__()
        self.suffix, self.options = suffix, {"max_length": max_length}
        self.may_run, self.batches = threading.Event(), []
        self.may_run.set()
        text = tf.TensorSpec([None], tf.string, name="text")
        ids = tf.TensorSpec([None, None], tf.int32, name="source")
        length = tf.TensorSpec([], tf.int32, name="max_length")
        self.functions = {
            "serving_default": graph(self.translate, text),
            "limited": graph(
                lambda text, n: self.translate(tf.strings.substr(text, 0, n)), text, length
            ),
            "ids": graph(
                lambda source: {"tokens": source[:, None] + 1, "sum": tf.reduce_sum(source, 1)}, ids
            ),
        }

    def signatures(self):
        return self.functions

    def wait(self, text):
        self.batches.append(text.tolist())
        self.may_run.wait()
        if b"bad" in text:
            raise ValueError("a bad text")
        return text

    def translate(self, text):
        text = tf.ensure_shape(tf.numpy_function(self.wait, [text], tf.string), [None])
        upper = tf.strings.upper(text) + self.suffix
        pieces = tf.strings.unicode_split(upper, "UTF-8").to_tensor("")
        return {
            "text": upper,
            "score": tf.cast(tf.strings.length(text), tf.float32),
            "n_best": upper[:, None],
            "n_best_score": tf.zeros_like(upper[:, None], tf.float32),
            "pieces": pieces,
        }


@pytest.fixture
def make_toy():
    return Toy


@pytest.fixture
def toy():
    toy = Toy()
    yield toy
    toy.may_run.set()


@pytest.fixture
def serve(toy):
    """Makes a `ServedModel` of the toy with some options."""
    models = []

    def make(predictor=toy, observer=None, **options):
        limits = ServingOptions(**{"batch_timeout": 20.0} | options)
        models.append(ServedModel(predictor, "toy", 1, limits=limits, observer=observer))
        return models[-1]

    yield make
    toy.may_run.set()
    for model in models:
        model.close()
