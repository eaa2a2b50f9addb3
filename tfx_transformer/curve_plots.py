"""Pictures of how good models are: while they learn, and beside each other."""

import math
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from tfx_transformer.fonts import save_figure
from tfx_transformer.plots import (
    BLUE,
    INCH,
    RED,
    _grid,
    _head_colours,
    _headline,
    _numbers,
    _open_frame,
)

CURVES = {  # what a run may have recorded
    "loss": "loss",
    "perplexity": "perplexity",
    "bleu": "BLEU",
    "bleu_4": "BLEU-4",
    "chrf": "chrF",
    "validation_loss": "validation loss",
    "accuracy": "accuracy, %",
}
BEST = ("bleu", "bleu_4", "accuracy")  # of which the greatest is marked


def plot_curves(lines: list[dict], path, title="") -> Path:
    """Learning curves: a panel for each name in CURVES that was recorded.

    Args:
        lines: records such as {"step": 250, "loss": 3.1, "bleu": 10.2}.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
    """
    curves = {name: curve for name in CURVES if len(curve := _curve(lines, name))}
    if not curves:
        raise ValueError(f"lines must hold some of {', '.join(CURVES)}; got lines={lines!r:.200}")
    figure, (_, columns) = Figure(figsize=INCH), _grid(len(curves))
    for panel, (name, curve) in enumerate(curves.items()):
        axes = figure.add_axes((panel % columns * 4.2, -(panel // columns) * 3.1, 3.5, 2.3))
        steps, values = curve.T
        axes.plot(steps, values, marker="o" if len(steps) <= 40 else "", markersize=3, color=BLUE)
        axes.set(title=CURVES[name], xlabel="step")
        _open_frame(axes)
        if name == "perplexity" and values.max() > 10 * values.min() > 0:
            axes.set_yscale("log")
            axes.yaxis.set(major_locator=LogLocator(subs=(1, 2, 5)), minor_locator=NullLocator())
            axes.yaxis.set(major_formatter="{x:,g}")
        if name in BEST:
            best = values.argmax()
            label = f"best: {values[best]:.2f} at step {steps[best]:,.0f}"
            axes.plot(steps[best], values[best], "o", color=RED, label=label)
            axes.legend(frameon=False)
    _headline(figure, 2.1 * columns - 0.35, 2.8, title)
    return save_figure(figure, path)


def plot_by_length(lengths, scores: dict[str, list[float]], path, title="") -> Path:
    """How good models are on sentences of growing length: a line for each.

    Args:
        lengths: the mean length of each group of sentences, in order.
        scores: of each model, one for each group.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
    """
    lengths = _numbers("G", 0, lengths=lengths)
    if not scores:
        raise ValueError("scores must hold those of at least one model; got none")
    for name, values in scores.items():
        if len(values) != len(lengths):
            raise ValueError(
                f"scores must hold {len(lengths)} numbers, as lengths; {name!r} has {len(values)}"
            )
    figure = Figure(figsize=INCH)
    axes = figure.add_axes((0, 0, 5.5, 3.5))
    colours = _head_colours(len(scores))
    for (name, values), colour in zip(scores.items(), colours, strict=True):
        axes.plot(lengths, values, marker="o", markersize=4, color=colour, label=name)
    axes.set(xlabel="words in the source", ylabel="BLEU")
    axes.set_ylim(bottom=0)
    _open_frame(axes)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _headline(figure, 2.75, 3.7, title)
    return save_figure(figure, path)


def _curve(lines: list[dict], name: str) -> np.ndarray:
    """(points, 2): the steps, in order, and what was recorded then; NaN is left out."""
    for line in lines:
        if "step" not in line:
            raise ValueError(f"lines must each have a step; got {line!r} among lines")
    points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
    return np.array([point for point in sorted(points) if math.isfinite(point[1])])
