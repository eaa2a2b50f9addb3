"""Tiny models whose results are easy to compute by hand, as factories."""

from tfx_transformer.runtime import import_tensorflow

import_tensorflow()
import keras  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from keras import ops  # noqa: E402

PAD, START, END = 0, 1, 2


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(0)


def compiled(function):
    """On JAX the function compiled as a whole, without optimization; otherwise unchanged.

    JAX compiles the loop in any case, and everything else op by op.
    """
    if keras.backend.backend() != "jax":
        return function
    import jax

    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


class Model:
    """Base class: `run` a decoder and get numpy arrays."""

    pad_id, start_id, end_id = PAD, START, END

    def run(self, decoder, **options):
        options = {"batch_size": self.batch_size, "max_length": self.max_length} | options
        ids = {"start_id": START, "end_id": END, "pad_id": PAD}
        result = compiled(lambda: decoder(self.step, self.state(), **ids, **options))()
        return {name: ops.convert_to_numpy(value) for name, value in result.items()}


class HistoryModel(Model):
    """Random logits that depend on the sentence and on all tokens so far, by a running code."""

    size = 997  # of the table: larger codes wrap around

    def __init__(self, batch_size, vocab_size, max_length, seed=0, dtype="float32"):
        self.batch_size, self.vocab_size, self.max_length = batch_size, vocab_size, max_length
        rng = np.random.default_rng(seed)
        self.table = 2 * rng.normal(size=(batch_size, self.size, vocab_size)).astype("float32")
        self.dtype = dtype

    def only(self, sentence):
        """The same model with one sentence."""
        one = HistoryModel(1, self.vocab_size, self.max_length)
        one.table = self.table[sentence : sentence + 1]
        return one

    def state(self):
        code = ops.zeros((self.batch_size,), "int32")
        return self.constant() | {"carry": {"code": code}}

    def constant(self):
        return {"constant": {"sentence": ops.arange(self.batch_size, dtype="int32")}}

    def step(self, tokens, state, index):
        if len(tokens.shape) == 2:  # a chunk
            logits = []
            for t in range(tokens.shape[1]):
                logits_t, state = self.step(tokens[:, t], state | self.constant(), index + t)
                logits.append(logits_t)
            return ops.stack(logits, axis=1), state
        code = (state["carry"]["code"] * self.vocab_size + tokens + index) % self.size
        table = ops.reshape(ops.convert_to_tensor(self.table), (-1, self.vocab_size))
        logits = ops.take(table, state["constant"]["sentence"] * self.size + code, axis=0)
        return ops.cast(logits, self.dtype), {"constant": None, "carry": {"code": code}}

    def log_probs(self, sentence, tokens):
        """Log-probabilities of the next token, by plain numpy: (V,)."""
        code = 0
        for index, token in enumerate((START, *tokens)):
            code = (code * self.vocab_size + int(token) + index) % self.size
        logits = self.table[sentence, code].astype("float64")
        return logits - np.log(np.exp(logits).sum())

    def log_prob(self, sentence, tokens):
        """Of a whole sequence."""
        tokens = tuple(tokens)
        return sum(self.log_probs(sentence, tokens[:i])[t] for i, t in enumerate(tokens))


class Speller(Model):
    """Spells its words; continues only after the last letter was fed back."""

    def __init__(self, words, vocab_size, max_length):
        self.batch_size, self.vocab_size, self.max_length = len(words), vocab_size, max_length
        rows = [[START, *word, END, *[PAD] * (max_length - len(word))] for word in words]
        self.rows = np.array(rows, "int32")

    def state(self):
        return {"constant": {}, "carry": [ops.convert_to_tensor(self.rows)]}

    def step(self, tokens, state, index):
        (left,) = state["carry"]
        moved = ops.concatenate([left[:, 1:], left[:, :1]], axis=1)
        left = ops.where((left[:, 0] == tokens)[:, None], moved, left)
        logits = 9.0 * ops.one_hot(left[:, 0], self.vocab_size)
        return logits, {"constant": state["constant"], "carry": [left]}


@pytest.fixture
def make_model():
    return HistoryModel


@pytest.fixture
def make_speller():
    return Speller
