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

CURVES = {  # recorded name: panel title
    "loss": "loss",
    "perplexity": "perplexity",
    "bleu": "BLEU",
    "bleu_4": "BLEU-4",
    "chrf": "chrF",
    "validation_loss": "validation loss",
    "accuracy": "accuracy, %",
}
BEST = ("bleu", "bleu_4", "accuracy")  # the maximum is marked


def plot_curves(lines: list[dict], path, title="") -> Path:
    """Learning curves of records such as {"step": 250, "loss": 3.1}, a panel for each metric."""
    curves = {name: curve for name in CURVES if len(curve := _curve(lines, name))}
    if not curves:
        raise ValueError(f"lines must hold some of {', '.join(CURVES)}; got lines={lines!r:.200}")
    figure, panels = make_panels(len(curves), 4.2, 3)
    figure.get_layout_engine().set(h_pad=0.1)
    for axes, (name, curve) in zip(panels, curves.items(), strict=True):
        steps, values = curve.T
        axes.plot(steps, values, marker="o" if len(steps) <= 40 else "", markersize=3, color=BLUE)
        axes.set(title=CURVES[name], xlabel="step")
        plot_grid(axes)
        if name == "perplexity" and values.max() > 10 * values.min() > 0:
            axes.set_yscale("log")
            axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), minor_locator=NullLocator())
            axes.yaxis.set(major_formatter="{x:,g}")
        if name in BEST:
            best = values.argmax()
            label = f"best: {values[best]:.2f} at step {steps[best]:,.0f}"
            axes.plot(steps[best], values[best], "o", color=RED, label=label)
            axes.legend(frameon=False)
    return save_figure(figure, path, title)


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
    for line in lines:
        if "step" not in line:
            raise ValueError(f"lines must each have a step; got {line!r} among lines")
    points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
    return np.array([point for point in sorted(points) if math.isfinite(point[1])])
