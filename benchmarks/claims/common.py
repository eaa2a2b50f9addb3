"""What the claims share: TensorFlow started, a training loop, tables and pictures."""

import json
import logging
import time
from pathlib import Path

from tfx_transformer.runtime import start_tensorflow

start_tensorflow()

import numpy as np  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from tfx_transformer.training.losses import TokenCrossentropy  # noqa: E402
from tfx_transformer.training.optimizer import FusedAdam  # noqa: E402
from tfx_transformer.training.schedules import SCHEDULES  # noqa: E402
from tfx_transformer.visualization.figure import plot_grid, save_figure  # noqa: E402

PAD, END, START = 0, 1, 2
FIRST = 3  # the first id that is a symbol
logging.getLogger("tensorflow").setLevel("ERROR")  # every new model is traced anew


def prepare(model, steps, learning_rate=2e-3):
    """The model, compiled for `steps` steps with Adam: warm-up, then a cosine."""
    options = {"warmup_steps": max(1, steps // 10), "total_steps": steps + 1}
    rate = SCHEDULES.make("cosine", learning_rate=learning_rate, **options)
    optimizer = FusedAdam(rate, beta_2=0.98, global_clipnorm=1.0)
    model.compile(optimizer, TokenCrossentropy(), jit_compile=False)
    return model


def fit(model, make_batch, steps, learning_rate=2e-3):
    """Trains on new batches, at most `steps`, until the loss is below 0.01 five times in a row."""
    prepare(model, steps, learning_rate)
    learned = 0
    for _ in range(steps):
        model.reset_metrics()  # else the loss is the mean of all batches
        loss = float(model.train_on_batch(*make_batch()))
        learned = learned + 1 if loss < 0.01 else 0
        if learned == 5:
            break


def predict(model, inputs, rows=100):
    """The most probable token at each target position, (B, T): the targets are inputs."""
    starts = range(0, len(inputs["source"]), rows)
    parts = ({name: x[i : i + rows] for name, x in inputs.items()} for i in starts)
    return np.concatenate([np.asarray(model(part)).argmax(axis=-1) for part in parts])


class Results(dict):
    """Results by name, in a JSON file if one is given: a repeated command continues."""

    def __init__(self, path=None):
        self.path = path and Path(path)
        super().__init__(json.loads(self.path.read_text()) if path and self.path.exists() else {})

    def measure(self, name, function, *arguments):
        """The result of the function, a number or a list of numbers, computed once."""
        if name not in self:
            start = time.perf_counter()
            self[name] = np.asarray(function(*arguments)).tolist()
            seconds = time.perf_counter() - start
            print(f"{name}: {np.round(self[name], 1)} ({seconds:.0f} s)", flush=True)
            if self.path:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self, indent=1))
        return self[name]


def print_table(head, columns, rows):
    """Prints Markdown; `rows` is {name: cells}."""
    print(f"| {head} |", " | ".join(map(str, columns)), "|")
    print("|---|" + "---:|" * len(columns))
    for name, cells in rows.items():
        print(f"| {name} |", " | ".join(map(str, cells)), "|", flush=True)


def plot_lines(x, lines, path, title, xlabel, ylabel, xscale="log", yscale="log"):
    """A picture of `lines`, {name: values}, over x."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, values in lines.items():
        axes.plot(x, values, ".-", label=name)
    plot_grid(axes)
    axes.set(xscale=xscale, yscale=yscale, xlabel=xlabel, ylabel=ylabel)
    axes.set(xticks=x, xticklabels=x)
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=8)
    print(save_figure(figure, path, title))
