"""Models without weights: a toy for the engine, whose speed a test controls, and, for the servers,
fakes with the interface of ServedModel and Repository, which compute nothing.
"""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.pipelines.base import GeneratedText
from tfx_transformer.runtime import graph
from tfx_transformer.serving.app import create_app
from tfx_transformer.serving.errors import NotFound, Overloaded, Unavailable
from tfx_transformer.serving.model import ServedModel
from tfx_transformer.serving.options import AccessOptions, ServingOptions
from tfx_transformer.serving.signatures import check_inputs


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


GENERATED = {
    "text": tf.string,
    "score": tf.float32,
    "n_best": tf.string,
    "n_best_score": tf.float32,
}
GENERATED |= {"pieces": tf.string}
ALIGNED = {"source_pieces": tf.string, "alignment": tf.float32, "truncated": tf.bool}
CLASSES = {"labels": tf.string, "scores": tf.float32}
DRAWN = {"n_best_bytes": tf.string, "n_best_score": tf.float32, "truncated": tf.bool}
READ = {"is_readable": tf.bool}
POOL = ThreadPoolExecutor(8)


def strings(*values):
    array = np.empty(len(values), object)
    array[:] = [value.encode() for value in values]
    return array


def generated(rows):
    """A text in capitals; the second best is the same one backwards, with an infinite score."""
    texts = [row.decode().upper() for row in rows]
    return {
        "text": strings(*texts),
        "score": np.full(len(rows), -0.2, "float32"),
        "n_best": np.stack([strings(*texts), strings(*[x[::-1] for x in texts])], axis=1),
        "n_best_score": np.array([[-0.2, -np.inf]] * len(rows), "float32"),
    }


def translate(text):
    # words, padded with an empty piece
    words = [row.decode().split() for row in text]
    size = max(map(len, words)) + 1
    pieces = np.stack([strings(*x, *[""] * (size - len(x))) for x in words])
    alignment = np.full((len(text), size, size), 1 / 3, "float32")
    return generated(text) | {
        "pieces": pieces,
        "source_pieces": pieces,
        "alignment": alignment,
        "truncated": np.array([len(row) > 30 for row in text]),
    }


def explain(text):
    outputs = translate(text)
    attention = np.tile(outputs["alignment"][:, None, None], (1, 2, 4, 1, 1))
    return outputs | {"attention": attention}


def classes(count):
    return {
        "labels": np.tile(strings("cat", "dog", "cow"), (count, 1)),
        "scores": np.array([[0.7, 0.2, 0.1]] * count, "float32"),
    }


def classify(image):
    readable = np.array([x.startswith(b"\x89PNG") for x in image])
    return classes(len(image)) | {"is_readable": readable}


def rollout(image):
    return classify(image) | {"rollout": np.full((len(image), 3, 2), 0.5, "float32")}


def caption(image):
    pieces = np.tile(strings("a", "dog", ""), (len(image), 1))
    weights = np.full((len(image), 3, 2, 2), 0.25, "float32")
    texts = generated([b"a dog"] * len(image))
    return texts | {
        "pieces": pieces,
        "weights": weights,
        "is_readable": classify(image)["is_readable"],
    }


def classify_text(text):
    return classes(len(text)) | {"truncated": np.zeros(len(text), bool)}


def draw(text, seed=0):
    """Two "files" of each text; the second has no finite score."""
    files = np.stack([strings(*[f"{x.decode()} {i}" for x in text]) for i in (1, 2)], axis=1)
    files += np.array([f", seed {x}".encode() for x in np.broadcast_to(seed, len(text))])[:, None]
    scores = np.array([[-3.5, -np.inf]] * len(text), "float32")
    truncated = np.array([len(row) > 30 for row in text])
    return {"n_best_bytes": files, "n_best_score": scores, "truncated": truncated}


def add(a, b):
    return {"sum": a + b[:, None].astype("float32")}


FUNCTIONS = {  # kind: signatures, each with the types of inputs and outputs
    "translator": {
        "serving_default": (translate, {"text": tf.string}, GENERATED | ALIGNED),
        "explain": (explain, {"text": tf.string}, GENERATED | ALIGNED | {"attention": tf.float32}),
        "add": (add, {"a": tf.float32, "b": tf.int32}, {"sum": tf.float32}),
    },
    "classifier": {
        "serving_default": (classify, {"image": tf.string}, CLASSES | READ),
        "explain": (rollout, {"image": tf.string}, CLASSES | READ | {"rollout": tf.float32}),
    },
    "captioner": {
        "serving_default": (
            caption,
            {"image": tf.string},
            GENERATED | READ | {"weights": tf.float32},
        )
    },
    "text_classifier": {
        "serving_default": (
            classify_text,
            {"text": tf.string},
            CLASSES | {"truncated": tf.bool},
        )
    },
    "generator": {"serving_default": (translate, {"text": tf.string}, GENERATED | ALIGNED)},
    "text_to_image": {
        "serving_default": (draw, {"text": tf.string}, DRAWN),
        "seeded": (draw, {"text": tf.string, "seed": tf.int32}, DRAWN),
    },
}


class FakeModel:
    """Set `error` to fail, clear `may_run` to block."""

    def __init__(self, name, kind, version=1):
        self.name, self.kind, self.version, self.waiting = name, kind, version, 0
        self.options = {"class_names": ["cat", "dog", "cow"]} if "classifier" in kind else {}
        self.may_run, self.error, self.canceled = threading.Event(), None, 0
        self.limits = ServingOptions(max_rows=10_000)
        self.may_run.set()
        self.signatures, self.functions = {}, {}
        for key, (function, inputs, outputs) in FUNCTIONS[kind].items():
            self.functions[key] = function
            self.signatures[key] = SimpleNamespace(inputs=specs(inputs), outputs=specs(outputs))

    def submit(self, inputs, signature="serving_default", deadline=None):
        if self.error is not None:
            raise self.error
        inputs = check_inputs(inputs, self.signatures[signature].inputs, self.limits)
        future = POOL.submit(self.compute, inputs, signature)
        future.add_done_callback(self.count)
        return future

    def count(self, future):
        self.canceled += future.cancelled()

    def compute(self, inputs, signature):
        self.may_run.wait(10)
        return self.functions[signature](**inputs)

    def stream(self, text, max_length=64, deadline=None):
        if self.error is not None:
            raise self.error
        for word in text.split()[:max_length]:
            self.may_run.wait(10)
            yield word + " "


def specs(types):
    ranks = {"a": [None, 2], "n_best": [None, 2], "labels": [None, 3]}
    ranks["n_best_bytes"] = [None, 2]
    return {key: tf.TensorSpec(ranks.get(key, [None]), dtype, key) for key, dtype in types.items()}


class FakeRepository:
    def __init__(self, **kinds):
        self.models = {name: FakeModel(name, kind, 3) for name, kind in kinds.items()}
        self.is_ready = True

    def names(self):
        return list(self.models)

    def get(self, name, version=None, label=None):
        if name not in self.models:
            raise NotFound(f"there is no model {name}")
        if not self.is_ready:
            raise Unavailable(f"{name} is being loaded")
        if version not in (None, 3) or label not in (None, "stable"):
            raise NotFound(f"{name} has no version {version or label}")
        return self.models[name]

    def statuses(self, name):
        if name not in self.models:
            raise NotFound(f"there is no model {name}")
        state = "AVAILABLE" if self.is_ready else "LOADING"
        broken = SimpleNamespace(version=2, state="END", error="ValueError: broken")
        return [SimpleNamespace(version=3, state=state, error=""), broken]


@pytest.fixture
def repository():
    """One fake model of each kind, named as its kind."""
    return FakeRepository(**{kind: kind for kind in FUNCTIONS})


class Client:
    """Calls an application in this process."""

    def __init__(self, app):
        self.app = app

    def __call__(self, method, path, **options):
        async def send():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path, **options):
        return self("GET", path, **options)

    def post(self, path, json=None, **options):
        return self("POST", path, json=json, **options)


@pytest.fixture
def client(repository):
    """Calls an application with the fake models."""
    return Client(create_app(repository, ServingOptions(deadline=5)))


@pytest.fixture
def make_client(repository):
    def make(serving=None, **access):
        serving = serving or ServingOptions(deadline=5)
        return Client(create_app(repository, serving, AccessOptions(**access)))

    return make


@pytest.fixture
def overloaded():
    return Overloaded("translator has 256 waiting requests; try later")


@pytest.fixture
def wait_until():
    def wait(condition, seconds=5.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            time.sleep(0.01)

    return wait
