"""Pictures of what attention does."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

SHADES = " ░▒▓█"


def plot_attention(weights, path, queries=None, keys=None, title="") -> Path:
    """Draws one head's weights (T, S), a row for each query, into a picture file.

    Args:
        weights: (T, S), rows that sum to one.
        path: where to; the ending chooses the format (png, svg, pdf).
        queries, keys: labels of the T rows and the S columns.
        title: above the picture.
    """
    weights = np.asarray(weights)
    figure = Figure(figsize=(2 + 0.3 * weights.shape[1], 1.5 + 0.3 * weights.shape[0]))
    axes = figure.subplots()
    image = axes.imshow(weights, cmap=matplotlib.colormaps["viridis"], vmin=0, vmax=1)
    if keys is not None:
        axes.set_xticks(range(len(keys)), keys)
    if queries is not None:
        axes.set_yticks(range(len(queries)), queries)
    axes.set(xlabel="key", ylabel="query", title=title)
    figure.colorbar(image, ax=axes, shrink=0.8, label="weight")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return path


def show_attention(weights, queries, keys) -> str:
    """The same for a terminal: one line for each query, the darker the more it looks there."""
    weights = np.asarray(weights)
    shades = np.minimum((weights * len(SHADES)).astype(int), len(SHADES) - 1)
    lines = ["   " + "".join(f"{key:>2}" for key in keys)]
    for query, row in zip(queries, shades, strict=True):
        lines.append(f"{query:>2} " + "".join(2 * SHADES[shade] for shade in row))
    return "\n".join(lines)
