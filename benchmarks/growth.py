"""How time and memory grow: decoding, attention and training against their sizes.

    python benchmarks/growth.py [--picture docs/pictures/growth.png] [--only decoding training]

Decoding: a Transformer of 2 + 2 blocks of 128 with random weights generates 32 tokens for each of
16 sentences of 16 tokens, by a beam of 4 over 2,000 tokens; one of these numbers is changed.
Attention: forward and backward of one layer of 64 with 4 heads, by the number of positions; windows
have 64 keys or 65. Training: steps of `fit` of 2 + 2 blocks on 2,048 target tokens, by the width.
The time is that of the fastest of some calls. Memory is the peak of a process that computes one
curve, from small to large, above its peak in a first call of the smallest; graphs that were traced
are part of it.
"""

import argparse
import math
import multiprocessing
import time
from functools import partial
from pathlib import Path

from tfx_transformer.runtime import graph, import_tensorflow

import_tensorflow()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from timing import fit_case  # noqa: E402

from tfx_transformer.decoding import DECODERS  # noqa: E402
from tfx_transformer.layers import ATTENTION, NeighborhoodAttention, WindowAttention  # noqa: E402
from tfx_transformer.models import create_model  # noqa: E402
from tfx_transformer.pipelines.decode import decode  # noqa: E402
from tfx_transformer.training.losses import TokenCrossentropy  # noqa: E402
from tfx_transformer.training.optimizer import FusedAdam  # noqa: E402

DECODING = {"length": 32, "batch": 16, "beam": 4, "vocabulary": 2000}
SWEEPS = {
    "length": (16, 32, 64, 128),
    "batch": (1, 4, 16, 64),
    "beam": (1, 2, 4, 8),
    "vocabulary": (2000, 8000, 32_000),
}
POSITIONS = (256, 512, 1024, 2048)
LAYERS = {
    "multi_head": {},
    "grouped_query": {"num_kv_heads": 2},
    "dot": {},
    "bilinear": {},
    "hard": {},
    "local": {"window": 65},
    "additive": {},
    "window": {"window": 8},
    "neighborhood": {"window": 7},
}
GRIDS = {"window": WindowAttention, "neighborhood": NeighborhoodAttention}
DIMS = (64, 128, 256, 512)


def measure(case, rounds=5):
    """Seconds of the fastest of some calls, and megabytes of the peak of this process so far."""
    case()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        elapsed = case()
        times.append(elapsed if isinstance(elapsed, float) else time.perf_counter() - start)
    return min(times), memory("VmHWM")


def memory(name):
    """A number of /proc/self/status in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


def decoding_case(length, batch, beam, vocabulary):
    """A call that generates exactly `length` tokens."""
    model = create_model(
        "transformer", vocab_size=vocabulary, dim=128, depth=2, num_heads=4, mlp_dim=256
    )
    spec = {"kind": "beam", "width": beam} if beam > 1 else {"kind": "greedy"}
    decoder = DECODERS.make(spec | {"min_length": length})
    source = tf.constant(np.random.default_rng(0).integers(4, vocabulary, (batch, 16)), tf.int32)

    def run(source):
        return decode(model, decoder, {"source": source}, batch, length, compact=True)["tokens"]

    function = graph(run, tf.TensorSpec([None, None], tf.int32))
    return lambda: function(source).numpy() is None


def decode_with(name, value):
    """A decoding case with one number changed."""
    return decoding_case(**DECODING | {name: value})


def attention_case(name, positions):
    """Forward and backward of a layer on one sequence, or on a square or 1 : 2 grid."""
    options = {"dim": 64, "num_heads": 4} | LAYERS[name]
    shape: tuple[int, ...] = (1, positions, 64)
    if name in GRIDS:
        side = 2 ** math.floor(math.log2(positions) / 2)
        layer, shape = GRIDS[name](**options), (1, side, positions // side, 64)
    else:
        layer = ATTENTION.make({"kind": name} | options)
    x = tf.constant(np.random.default_rng(0).normal(size=shape), tf.float32)
    layer.build(shape)  # a call would compute all scores, which graphs need not

    @partial(tf.function, autograph=False)
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(tf.square(layer(x, training=True)))
        return tape.gradient(loss, [x, *(w.value for w in layer.trainable_variables)])

    return lambda: run(x)[0].numpy() is None


def training_case(dim, tokens=2048, vocabulary=8000):
    """A training step of a translator."""
    model = create_model(
        "transformer", vocab_size=vocabulary, dim=dim, depth=2, num_heads=4, mlp_dim=4 * dim
    )
    ids = np.random.default_rng(0).integers(4, vocabulary, (3, tokens // 32, 32), dtype="int32")
    batch = {"source": ids[0], "target": ids[1]}, ids[2], np.ones(ids[2].shape, "float32")
    data = tf.data.Dataset.from_tensors(batch)
    return fit_case(model, data, FusedAdam(1e-4), TokenCrossentropy(0.1))


PARTS = {
    "decoding": {name: (values, partial(decode_with, name)) for name, values in SWEEPS.items()},
    "attention": {name: (POSITIONS, partial(attention_case, name)) for name in LAYERS},
    "training": {"dim": (DIMS, training_case)},
}


def curve(part, name):
    """What grows, its values, seconds and megabytes; for a process of its own."""
    values, make_case = PARTS[part][name]
    measure(make_case(values[0]), rounds=1)  # the libraries allocate their memory
    before = memory("VmHWM")
    seconds, peaks = zip(*(measure(make_case(value)) for value in values), strict=True)
    return name, values, seconds, [peak - before for peak in peaks]


def table(part, curves):
    """The curves as a table in Markdown."""
    lines = []
    for name, values, seconds, megabytes in curves:
        cells = [f"{value:,}" for value in values]
        if part == "training":
            speeds = [f"{2048 / s:,.0f}" for s in seconds]
            rows = [("tokens/s", speeds)]
        else:
            rows = [("ms", [f"{1000 * s:,.1f}" for s in seconds])]
        rows.append(("peak MB", [f"{m:,.0f}" for m in megabytes]))
        lines += [f"| {part}: {name} | {' | '.join(cells)} |", f"|---|{'---:|' * len(cells)}"]
        lines += [f"| {what} | {' | '.join(row)} |" for what, row in rows]
        lines.append("")
    return "\n".join(lines)


def plot(results, path):
    """Time in the upper row, memory in the lower one, both axes logarithmic."""
    from tfx_transformer.visualization.figure import line_colors, make_panels, save_figure

    parts = list(results)
    figure, panels = make_panels(2 * len(parts), 4.2, 3.2, columns=len(parts))
    labels = {
        "decoding": "times 32 tokens, 16 rows, 4 beams, 2,000 pieces",
        "attention": "positions",
        "training": "dim",
    }
    for column, part in enumerate(parts):
        curves = results[part]
        for row, what in enumerate(("seconds", "megabytes at the peak")):
            axes = panels[row * len(parts) + column]
            for color, curve in zip(line_colors(len(curves)), curves, strict=True):
                name, values, numbers = curve[0], np.array(curve[1]), curve[2 + row]
                values = values / DECODING.get(name, 1)
                axes.loglog(values, numbers, "o-", label=name, color=color, base=2, markersize=3)
            axes.set(title=f"{part}: {what}", xlabel=labels[part])
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter("{x:g}")
            axes.grid(alpha=0.3)
            if row == 0 and len(curves) > 1:
                axes.legend(fontsize=7)
    save_figure(figure, path, "How time and memory grow")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--picture", help="where to draw the curves")
    options = parser.parse_args()
    results = {}
    for part in options.only:
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            names = [(part, name) for name in PARTS[part]]
            results[part] = pool.starmap(curve, names, chunksize=1)
        print(table(part, results[part]), flush=True)
    if options.picture:
        plot(results, options.picture)


if __name__ == "__main__":
    main()
