"""Plots of learning curves and of model comparisons.

`path` is the file to write (png, svg or pdf by its ending), `title` the text above the plot.
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from tfx_transformer.visualization.figure import (
    BLUE,
    RED,
    check_array,
    line_colors,
    make_panels,
    plot_grid,
    save_figure,
)

PANELS = {  # recorded name: panel title
    "perplexity": "validation perplexity",
    "bleu": "validation BLEU",
    "bleu_4": "validation BLEU-4",
    "chrf": "validation chrF",
    "accuracy": "validation accuracy, %",
}
BEST = ("bleu", "bleu_4", "accuracy")  # the maximum is marked


def plot_curves(lines: list[dict], path, title="") -> Path:
    """Learning curves of records such as {"step": 250, "loss": 3.1}.

    The first panel has the loss in training and validation, the others a metric each. If only the
    perplexity of the validation set was recorded, its logarithm is the loss.
    """
    for line in lines:
        if "step" not in line:
            raise ValueError(f"lines must each have a step; got {line!r} among lines")
    lines = [line | {"validation_loss": validation_loss(line)} for line in lines]
    loss = {"training": _curve(lines, "loss"), "validation": _curve(lines, "validation_loss")}
    panels = {"loss": {name: curve for name, curve in loss.items() if len(curve)}}
    panels |= {name: {"": curve} for name in PANELS if len(curve := _curve(lines, name))}
    panels = {name: curves for name, curves in panels.items() if curves}
    if not panels:
        names = ", ".join(["loss", "validation_loss", *PANELS])
        raise ValueError(f"lines must hold some of {names}; got lines={lines!r:.200}")
    figure, grid = make_panels(len(panels), 4.2, 3)
    figure.get_layout_engine().set(h_pad=0.1)
    for axes, (name, curves) in zip(grid, panels.items(), strict=True):
        for label, curve in curves.items():
            marker, color = "o" if len(curve) <= 40 else "", BLUE if label == "training" else RED
            axes.plot(*curve.T, marker=marker, markersize=3, color=color, label=label)
        axes.set(title=PANELS.get(name, name), xlabel="step")
        plot_grid(axes)
        values = np.concatenate(list(curves.values()))[:, 1]
        if name in ("loss", "perplexity") and values.max() > 10 * values.min() > 0:
            axes.set_yscale("log")
            axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), minor_locator=NullLocator())
            axes.yaxis.set(major_formatter="{x:,g}")
        if name in BEST:
            step, best = curves[""][values.argmax()]
            label = f"best: {best:.2f} at step {step:,.0f}"
            axes.plot(step, best, "o", color="black", fillstyle="none", markersize=9, label=label)
        if name == "loss" or name in BEST:
            axes.legend(frameon=False)
    return save_figure(figure, path, title)


def validation_loss(line: dict) -> float | None:
    """In nats; the logarithm of the perplexity if the loss itself was not recorded."""
    if line.get("validation_loss") is None and line.get("perplexity"):
        return math.log(line["perplexity"])
    return line.get("validation_loss")


def plot_by_length(lengths, scores: dict[str, list[float]], path, title="") -> Path:
    """BLEU of each model by source length, given the mean length of each group of sentences."""
    lengths = check_array("G", 0, lengths=lengths)
    if not scores:
        raise ValueError("scores must contain at least one model; got none")
    for name, values in scores.items():
        if len(values) != len(lengths):
            raise ValueError(
                f"scores must hold {len(lengths)} numbers, as lengths; {name!r} has {len(values)}"
            )
    figure, (axes,) = make_panels(1, 8, 4)
    for (name, values), color in zip(scores.items(), line_colors(len(scores)), strict=True):
        axes.plot(lengths, values, marker="o", markersize=4, color=color, label=name)
    axes.set(xlabel="words in the source", ylabel="BLEU")
    axes.set_ylim(bottom=0)
    plot_grid(axes)
    figure.legend(frameon=False, loc="outside right center")
    return save_figure(figure, path, title)


def _curve(lines: list[dict], name: str) -> np.ndarray:
    """(points, 2): steps in ascending order and the recorded values, without NaN."""
    points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
    return np.array([point for point in sorted(points) if math.isfinite(point[1])])
