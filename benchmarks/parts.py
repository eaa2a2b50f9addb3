"""Own parts of a training step against their definitions in Keras: forward and backward.

    python benchmarks/parts.py [--rounds 15] [--only loss step] [--dtypes float32 bfloat16]

Rows are 2,048 tokens: the loss over 8,000 pieces with label smoothing 0.1, dropout of 10 layers of
256, and logits with a tied table of 8,000 × 256; then a whole step of `fit` of the translator
"small" on 2,048 target tokens, with all three. A ratio is the median over the rounds of (the
definition's time / our time): above 1 ours is faster; timing.py explains the measurement.
"""

import argparse
import contextlib
import itertools
import statistics
from unittest import mock

from timing import fit_case, median_ratio, time_interleaved

from tfx_transformer.runtime import graph, start_tensorflow

start_tensorflow()

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import ops  # noqa: E402

from tfx_transformer.layers import TokenEmbedding  # noqa: E402
from tfx_transformer.layers.dropout import Dropout  # noqa: E402
from tfx_transformer.models import create_model  # noqa: E402
from tfx_transformer.training.losses import TokenCrossentropy  # noqa: E402
from tfx_transformer.training.optimizer import FusedAdam  # noqa: E402

ROWS, DIM, VOCAB_SIZE = 2048, 256, 8000
PARTS, DTYPES = ("loss", "dropout", "logits", "step"), ("float32", "bfloat16")


def backward(function, x, weights=()):
    """A call of the gradient of a sum, by x and the weights."""

    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(function(x))
        return tape.gradient(loss, [x, *weights])

    function_graph = graph(run, tf.TensorSpec(x.shape, x.dtype))
    return lambda: function_graph(x)[0].numpy() is None


def dense_loss(targets):
    """The definition: dense targets and the logarithm of softmax."""

    def loss(logits):
        logits = ops.cast(logits, "float32")
        smooth = 0.9 * ops.one_hot(targets, VOCAB_SIZE, dtype="float32") + 0.1 / VOCAB_SIZE
        return ops.categorical_crossentropy(smooth, logits, from_logits=True)

    return loss


def dropouts(kind):
    """Ten layers, one after the other."""
    layers = [kind(0.1, seed=i) for i in range(10)]

    def apply(x):
        for layer in layers:
            x = layer(x, training=True)
        return x

    return apply


def cases_of(dtype):
    """{part: a function that makes (the definition, ours)}."""
    x = tf.cast(tf.random.normal((ROWS, DIM)), dtype)
    logits = tf.cast(tf.random.normal((ROWS, VOCAB_SIZE)), dtype)
    targets = tf.random.uniform((ROWS,), 0, VOCAB_SIZE, tf.int32)
    embedding = TokenEmbedding(VOCAB_SIZE, DIM)
    embedding.build((None, None))
    table = embedding.table.value

    def transposed(x):
        return tf.transpose(tf.matmul(tf.cast(table, x.dtype), tf.transpose(x)))

    return {
        "loss": lambda: (
            backward(dense_loss(targets), logits),
            backward(lambda y: TokenCrossentropy(0.1).call(targets, y), logits),
        ),
        "dropout": lambda: (
            backward(dropouts(lambda *a, **k: keras.layers.Dropout(*a, dtype=dtype, **k)), x),
            backward(dropouts(lambda *a, **k: Dropout(*a, dtype=dtype, **k)), x),
        ),
        "logits": lambda: (
            backward(transposed, x, [table]),
            backward(embedding.logits, x, [table]),
        ),
        "step": lambda: step_cases(dtype if dtype == "float32" else f"mixed_{dtype}"),
    }


def step_cases(dtype):
    """A training step with the three definitions, and ours."""
    ids = np.random.default_rng(0).integers(4, VOCAB_SIZE, (3, ROWS // 32, 32), dtype="int32")
    batch = {"source": ids[0], "target": ids[1]}, ids[2], np.ones(ids[2].shape, "float32")
    data = tf.data.Dataset.from_tensors(batch)

    def transposed(layer, x, transposed=None):
        rows = tf.reshape(x, (-1, DIM))
        y = tf.transpose(tf.matmul(tf.cast(layer.table, x.dtype), tf.transpose(rows)))
        return tf.reshape(y, (*x.shape[:2], VOCAB_SIZE))

    definitions = (
        mock.patch.object(Dropout, "call", keras.layers.Dropout.call),
        mock.patch.object(TokenCrossentropy, "call", lambda _, y, z: dense_loss(y)(z)),
        mock.patch.object(TokenEmbedding, "logits", transposed),
    )

    def make():
        model = create_model("transformer", "small", vocab_size=VOCAB_SIZE, dtype=dtype)
        case = fit_case(model, data, FusedAdam(1e-4), TokenCrossentropy(0.1))
        case()  # traces
        return case

    with contextlib.ExitStack() as stack:
        for definition in definitions:
            stack.enter_context(definition)
        before = make()
    return before, make()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    options = parser.parse_args()
    print("| part | dtype | definition, ms | ours, ms | ours is faster by |")
    print("|---|---|---:|---:|---:|")
    for dtype, part in itertools.product(options.dtypes, options.only):
        pair = cases_of(dtype)[part]()
        seconds = time_interleaved(dict(zip("ab", pair, strict=True)), options.rounds, 1)
        before, after = (1000 * statistics.median(seconds[name]) for name in "ab")
        ratio = median_ratio(seconds["a"], seconds["b"])
        print(f"| {part} | {dtype} | {before:.1f} | {after:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
