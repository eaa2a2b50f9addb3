"""Plot of a confusion matrix with the accuracy of each class."""

from pathlib import Path

import numpy as np
from matplotlib.colors import FuncNorm

from tfx_transformer.visualization.figure import (
    BLUE,
    GRAY,
    MAX_SIDE,
    PALE,
    check_array,
    plot_matrices,
    save_figure,
)
from tfx_transformer.visualization.fonts import check_labels


def plot_confusion(counts, class_names, path, title="Confusion matrix") -> Path:
    """Confusion matrix: correct predictions in blue, wrong ones in red; the accuracy of each class.

    The counts are (C, C), a row for each true class, a column for each predicted one. The color is
    the fraction of the row; cells that are large enough also have their count. The overall accuracy
    follows the title.
    """
    counts = check_array("CC", 0, counts=counts)
    num_classes = len(counts)
    for number in counts[counts % 1 > 0]:
        raise ValueError(f"counts must be whole numbers; got {number} in counts")
    names = check_labels(num_classes, class_names=class_names)
    total = counts.sum(axis=1, keepdims=True)
    fractions = counts / np.where(total > 0, total, 1)
    signed = np.where(np.eye(num_classes, dtype=bool), fractions, -fractions)

    cell = min(max(0.5, 1.5 / num_classes), MAX_SIDE / num_classes)  # inches
    scale = FuncNorm((np.cbrt, lambda root: root**3), vmin=-1, vmax=1)  # shows small fractions
    style = {"max_cell": cell, "cmap": "RdBu", "norm": scale}
    figure, (axes,) = plot_matrices(signed[None], names, names, ("true", "predicted"), **style)
    size = min(10, 36 * cell, 90 * cell / len(f"{counts.max():.0f}"))  # points
    in_cell = {"fontsize": size, "ha": "center", "va": "center", "in_layout": False}
    for row, column in np.argwhere(counts) if size >= 4 else ():
        color = "white" if fractions[row, column] > 0.4 else "black"
        axes.text(column, row, f"{counts[row, column]:.0f}", color=color, **in_cell)

    width = cell * num_classes  # of the matrix, inches
    figure.set_figwidth(figure.get_figwidth() + 1.2)
    side = axes.inset_axes((1 + 0.1 / width, 0, 0.9 / width, 1), sharey=axes)
    side.barh(range(num_classes), fractions.diagonal(), color=BLUE, alpha=0.5)
    font = axes.get_yticklabels()[0].get_fontsize()
    for row, fraction in enumerate(fractions.diagonal()):
        text = f"{fraction:.0%}" if total[row] else ""
        side.text(0.02, row, text, fontsize=font, va="center_baseline", in_layout=False)
    side.set(xlim=(0, 1), xticks=(), title="accuracy")
    side.title.set(fontsize=9, color=GRAY)
    side.tick_params(left=False, labelleft=False)
    side.spines[:].set_color(PALE)
    place = axes.inset_axes((1 + 1.2 / width, 0, 0.2 / width, 1))
    color_bar = figure.colorbar(axes.images[0], place, label="fraction of the true class")
    ticks = (-1, -0.5, -0.1, 0, 0.1, 0.5, 1)
    color_bar.set_ticks(ticks, labels=[f"{abs(tick):g}" for tick in ticks])
    right, number = np.trace(counts), counts.sum()
    accuracy = f"{right:,.0f} of {number:,.0f} right ({right / (number or 1):.1%})"
    return save_figure(figure, path, f"{title}: {accuracy}" if title else accuracy)
