"""Accuracy and time against the distance of what has to be remembered, for five translators.

    python benchmarks/claims/recall.py accuracy [--picture docs/pictures/recall.png]
    python benchmarks/claims/recall.py time [--picture docs/pictures/step_time.png]

Source and target are n random letters, each after one of 16 symbols. The target ends with two
questions: which symbol was the source's, n positions away, and which one the target's?

    source   7 f b b a … END
    target   START 3 a f c … → 7 3

Only these two answers count in the loss. All models are 64 wide; training ends after 400 steps of
32 pairs, or when both answers are learned.
"""

import argparse
import statistics
import time

import numpy as np
from common import END, FIRST, START, Results, fit, plot_lines, predict, prepare, print_table
from keras.utils import set_random_seed

from tfx_transformer.models import create_model

LENGTHS = (8, 16, 32, 64, 128, 256)
SYMBOLS, LETTERS, BATCH = 16, 8, 32
VOCAB = FIRST + SYMBOLS + LETTERS
RNN = dict(name="rnn_seq2seq", dim=64, depth=1, embedding_dim=64)
CONV = dict(name="conv_seq2seq", dim=64, depth=4, embedding_dim=64, kernel_size=3)
MODELS = {
    "LSTM": RNN,
    "LSTM + attention": RNN | dict(attention="dot", readout="combined"),
    "ConvS2S": CONV,
    "ByteNet": dict(name="bytenet", dim=32, depth=9, max_dilation=256, length_ratio=1.0),
    "Transformer": dict(name="transformer", dim=64, depth=2, num_heads=4, mlp_dim=128),
}


def make_model(name, length):
    options = dict(MODELS[name])
    more = {"max_length": length + 3} if options["name"] == "conv_seq2seq" else {}
    return create_model(options.pop("name"), vocab_size=VOCAB, dropout=0.0, **more, **options)


def make_batch(rng, length, rows=BATCH):
    """Inputs, targets and weights (rows, length + 2); the last two targets are the answers."""
    symbols = rng.integers(FIRST, FIRST + SYMBOLS, (2, rows, 1))
    letters = rng.integers(FIRST + SYMBOLS, VOCAB, (2, rows, length - 1))
    source, target = np.concatenate([symbols, letters], axis=2)
    first, second = symbols
    start, end = (np.full((rows, 1), token) for token in (START, END))
    inputs = {
        "source": np.concatenate([source, end], axis=1),
        "target": np.concatenate([start, target, first], axis=1),
    }
    targets = np.concatenate([target, first, second], axis=1)
    weights = np.zeros(targets.shape, "float32")
    weights[:, -2:] = 1
    return inputs, targets, weights


def train(name, length, steps):
    """Percent of right answers, from the source and from the target, in 500 new examples."""
    set_random_seed(0)
    rng, model = np.random.default_rng(0), make_model(name, length)
    fit(model, lambda: make_batch(rng, length), steps, learning_rate=4e-3)
    inputs, targets, _ = make_batch(rng, length, 500)
    right = predict(model, inputs)[:, -2:] == targets[:, -2:]
    return 100 * right.mean(axis=0)


def step_time(name, length, steps):
    """Milliseconds of processor time of a training step, the median."""
    rng, model = np.random.default_rng(0), prepare(make_model(name, length), steps)
    batch, seconds = make_batch(rng, length), []
    for _ in range(steps + 2):
        start = time.process_time()
        model.train_on_batch(*batch)
        seconds.append(time.process_time() - start)
    return 1000 * statistics.median(seconds[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["accuracy", "time"])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--quick", action="store_true", help="a few steps, to try it")
    parser.add_argument("--results", help="JSON file: a repeated command continues")
    parser.add_argument("--picture", help="runs/recall.png or runs/step_time.png by default")
    own = parser.parse_args()
    lengths, steps = ((4,), 2) if own.quick else (own.lengths, own.steps)
    function, results = {"accuracy": train, "time": step_time}[own.what], Results(own.results)
    if own.what == "time":
        steps = min(steps, 8)
    found = {
        model: [results.measure(f"{model}, {n}", function, model, n, steps) for n in lengths]
        for model in MODELS
    }
    if own.what == "time":
        rows = {model: [f"{x:.0f}" for x in values] for model, values in found.items()}
        print_table("milliseconds of a step, length", lengths, rows)
        labels = "length of source and target", "milliseconds"
        title = f"Processor time of a training step of {BATCH} pairs"
        plot_lines(lengths, found, own.picture or "runs/step_time.png", title, *labels)
        return
    rows = {model: [f"{a:.0f} / {b:.0f}" for a, b in values] for model, values in found.items()}
    print_table("right answers in %, distance", lengths, rows)
    lines = {model: [b for _, b in values] for model, values in found.items()}
    labels = "distance in the target", "right answers, %"
    title = "Recall of a symbol that was n tokens ago in the same sentence"
    path = own.picture or "runs/recall.png"
    plot_lines(lengths, lines, path, title, *labels, yscale="linear")


if __name__ == "__main__":
    main()
