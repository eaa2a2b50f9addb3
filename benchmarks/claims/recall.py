"""Recall of a token that is n positions away: accuracy and time of a training step by distance.

    python benchmarks/claims/recall.py [--distances 8 32 128] [--steps 300]

The source is n + 1 random symbols of 8. The decoder gets n fillers and then predicts the first
symbol of the source. Every model is about as wide, and trained from scratch for each distance.
"""

import argparse
import time

import numpy as np

from tfx_transformer.runtime import import_tensorflow

import_tensorflow()

import keras  # noqa: E402
import tensorflow as tf  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from tfx_transformer.models import create_model  # noqa: E402
from tfx_transformer.training.losses import TokenCrossentropy  # noqa: E402
from tfx_transformer.training.optimizer import FusedAdam  # noqa: E402
from tfx_transformer.visualization.figure import plot_grid, save_figure  # noqa: E402

START, FILLER, FIRST, SYMBOLS = 1, 3, 4, 8
SHARED = {"vocab_size": FIRST + SYMBOLS, "dropout": 0.0}
RNN = {"dim": 64, "embedding_dim": 64, "depth": 1}
MODELS = {
    "LSTM": ("rnn_seq2seq", RNN | {"attention": None}),
    "LSTM + attention": ("rnn_seq2seq", RNN | {"attention": "additive"}),
    "ConvS2S": ("conv_seq2seq", {"dim": 64, "embedding_dim": 64, "depth": 2}),
    "ByteNet": ("bytenet", {"dim": 32, "depth": 5}),
    "Transformer": ("transformer", {"dim": 64, "depth": 2, "num_heads": 4, "mlp_dim": 128}),
}


def batch(rng, rows, distance):
    """Inputs, targets and weights: only the last position counts."""
    source = rng.integers(FIRST, FIRST + SYMBOLS, (rows, distance + 1)).astype("int32")
    target = np.full_like(source, FILLER)
    target[:, 0] = START
    targets, weights = np.zeros_like(source), np.zeros(source.shape, "float32")
    targets[:, -1], weights[:, -1] = source[:, 0], 1
    return {"source": source, "target": target}, targets, weights


def measure(name, distance, steps, rows=32):
    """Accuracy in percent on 500 new sources, and milliseconds of a training step."""
    keras.utils.set_random_seed(0)
    kind, options = MODELS[name]
    model = create_model(kind, **SHARED, **options)
    model.compile(FusedAdam(2e-3, global_clipnorm=1.0), TokenCrossentropy())
    rng = np.random.default_rng(distance)
    batches = [batch(rng, rows, distance) for _ in range(steps)]
    spec = keras.tree.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), batches[0])
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=spec)
    model.fit(data.take(2), verbose=0)  # traces
    start = time.perf_counter()
    model.fit(data.skip(2), verbose=0)
    milliseconds = 1000 * (time.perf_counter() - start) / (steps - 2)
    inputs, targets, _ = batch(rng, 500, distance)
    found = np.argmax(model.predict(inputs, batch_size=100, verbose=0)[:, -1], axis=-1)
    return 100 * float((found == targets[:, -1]).mean()), milliseconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--distances", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--picture", default="runs/recall.png")
    arguments = parser.parse_args()
    distances = arguments.distances
    print("| accuracy, time of a step |", " | ".join(map(str, distances)), "|")
    print("|---|" + "---:|" * len(distances), flush=True)
    results = {}
    for name in arguments.models:
        results[name] = [measure(name, n, arguments.steps) for n in distances]
        cells = (f"{accuracy:.0f} %, {time:.0f} ms" for accuracy, time in results[name])
        print(f"| {name} |", " | ".join(cells), "|", flush=True)

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, values in results.items():
        for axes, column in zip((left, right), zip(*values, strict=True), strict=True):
            axes.plot(distances, column, ".-", label=name)
    for axes in (left, right):
        plot_grid(axes)
        axes.set(xscale="log", xlabel="distance", xticks=distances, xticklabels=distances)
        axes.minorticks_off()
    left.axhline(100 / SYMBOLS, color="0.6", linestyle=":", label="chance")
    left.set(ylabel="accuracy in percent", ylim=(0, 103))
    right.set(ylabel="milliseconds of a training step", yscale="log")
    left.legend(frameon=False, fontsize=8)
    title = f"Recall of a token after {arguments.steps} training steps"
    print(save_figure(figure, arguments.picture, title))


if __name__ == "__main__":
    main()
