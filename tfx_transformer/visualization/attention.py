"""Plots of attention weights, position encodings and masks, as files or as text.

`path` is the file to write (png, svg or pdf by its ending), `title` the text above the plot.
"""

import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tfx_transformer.visualization.figure import (
    BLUE,
    GRAY,
    MAX_SIDE,
    PALE,
    check_array,
    label_width,
    line_colors,
    make_panels,
    plot_grid,
    plot_matrices,
    save_figure,
)
from tfx_transformer.visualization.fonts import check_labels, pad_left, shorten, text_columns
from tfx_transformer.visualization.pieces import readable

SHADES = " ░▒▓█"
NAMES = ("from token", "to token")  # of the rows and the columns


def plot_attention(weights, path, queries=None, keys=None, title="", names=NAMES) -> Path:
    """Heat map of one head's attention weights (T, S): a row for each query, a column for each key.

    Args:
        weights: (T, S); the colors begin at 0, so that equal weights look equal.
        queries: labels of the T queries, subwords as in a tokenizer's pieces, or other labels.
        keys: labels of the S keys.
        names: what the queries and the keys are.
    """
    weights = check_array("TS", 0, weights=weights)
    figure, (axes,) = _plot_weights(weights[None], queries, keys, names)
    figure.colorbar(axes.images[0], label="attention weight")
    return save_figure(figure, path, title)


def plot_heads(weights, path, queries=None, keys=None, title="", names=NAMES) -> Path:
    """Heat maps of all heads (H, T, S) with the same colors; see `plot_attention`."""
    weights = check_array("HTS", 0, weights=weights)
    figure, panels = _plot_weights(weights, queries, keys, names)
    for head, axes in enumerate(panels, 1):
        axes.set_title(f"head {head}", fontsize=9, color=GRAY)
    figure.colorbar(panels[0].images[0], ax=panels, label="attention weight")
    return save_figure(figure, path, title)


def _plot_weights(weights, queries, keys, names, cmap="Blues", vmax=None):
    """Heat maps of weights (M, T, S) that begin at 0."""
    style = {"cmap": cmap, "vmin": 0, "vmax": vmax or weights.max() or 1}
    queries, keys = (x if x is None else readable(x) for x in (queries, keys))
    return plot_matrices(weights, queries, keys, names, **style)


def plot_word(weights, path, tokens, word: int, title="") -> Path:
    """Attention from one token to all tokens of a text, with a color for each head.

    Stronger lines and boxes are larger weights, relative to the largest. After the visualization
    in Tensor2Tensor (Vaswani et al. 2018, arXiv:1803.07416).

    Args:
        weights: (H, S), each head's attention from that token.
        tokens: the S tokens of the text.
        word: index of the token that attends.
    """
    weights = check_array("HS", 0, weights=weights)
    num_heads, length = weights.shape
    tokens = list(map(shorten, check_labels(length, tokens=readable(tokens))))
    if isinstance(word, bool) or not isinstance(word, int | np.integer) or not 0 <= word < length:
        raise ValueError(f"word must be a whole number in 0 <= word < {length}; got word={word!r}")
    row, box = min(0.28, MAX_SIDE / length), min(0.14, 3 / num_heads)  # inches
    size, step = min(11, 40 * row), math.ceil(0.14 / box)
    width = 2.5 + num_heads * box + 2 * label_width(tokens, size)
    figure = Figure(figsize=(width, length * row + 0.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2.3, num_heads * box))

    strength = weights / (weights.max() or 1)  # (H, S)
    colors = np.repeat(line_colors(num_heads)[:, None], length, axis=1)  # (H, S, 4)
    colors[:, :, 3] = strength
    heads, keys = np.unravel_index(np.argsort(strength, axis=None), strength.shape)
    shift = 0.6 * ((heads + 0.5) / num_heads - 0.5)  # otherwise the heads would hide each other
    lines = [[(0, word + y), (1, key + y)] for key, y in zip(keys, shift, strict=True)]
    widths = (0.3 + 3 * strength[heads, keys]) * row / 0.28
    left.add_collection(LineCollection(lines, linewidths=widths, colors=colors[heads, keys]))
    left.set(xlim=(0, 1), ylim=(length - 0.5, -0.5), xticks=())
    left.set_yticks(range(length), tokens, fontsize=size, color=GRAY)
    left.get_yticklabels()[word].set(color="black", bbox={"facecolor": PALE, "edgecolor": "none"})

    boxes = colors.swapaxes(0, 1)  # (S, H, 4)
    right.pcolormesh(range(num_heads), range(length), boxes, edgecolors="0.8", linewidth=3 * box)
    right.set_title("head", fontsize=6, color=GRAY)
    shown = range(0, num_heads, step)
    right.set_xticks(shown, [head + 1 for head in shown], fontsize=6)
    right.set_xlabel(f"darkest: {weights.max():.2f}", fontsize=6, color=GRAY)
    right.xaxis.tick_top()
    for head, text in zip(shown, right.get_xticklabels(), strict=True):
        text.set_color(colors[head, 0, :3])
    right.tick_params("y", labelright=True, labelsize=size)
    for axes in (left, right):
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    return save_figure(figure, path, title)


def plot_positions(encoding, path, title="") -> Path:
    """Position encodings (T, D) as a heat map, and six dimensions, fast to slow, as curves."""
    encoding = check_array("TD", -math.inf, encoding=encoding)
    figure, (left, right) = make_panels(2, 5.2, 3.6)
    limit = np.abs(encoding).max() or 1
    image = left.imshow(encoding, "RdBu", aspect="auto", vmin=-limit, vmax=limit)
    left.set(title="all dimensions", xlabel="dimension", ylabel="position")
    figure.colorbar(image, label="value")

    # Sines and cosines may alternate or be in two halves, so the speed is measured.
    speed = np.abs(np.diff(encoding, axis=0)).sum(axis=0)  # (D)
    num_moving = max(1, np.sum(speed > limit / 2))  # nearly constant dimensions are left out
    chosen = np.linspace(0, num_moving - 1, min(6, num_moving)).round().astype(int)
    chosen = np.argsort(-speed, kind="stable")[chosen]
    right.set_prop_cycle(color=matplotlib.colormaps["viridis"](np.linspace(0.9, 0, len(chosen))))
    right.plot(encoding[:, chosen], ".-", markersize=3, label=[f"dimension {d}" for d in chosen])
    right.set(title=f"{len(chosen)} of them, fast to slow", xlabel="position", ylabel="value")
    plot_grid(right)
    figure.legend(frameon=False, loc="outside right center")
    return save_figure(figure, path, title)


def plot_mask(mask, path, queries=None, keys=None, title="", names=NAMES) -> Path:
    """A boolean mask (T, S): the keys each query may attend to; see `plot_attention`."""
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise ValueError(f"mask must be boolean, True = may attend; got mask of {mask.dtype}")
    height, width = check_array("TS", 0, mask=mask).shape
    colors = ListedColormap([PALE, BLUE])
    figure, (axes,) = _plot_weights(mask[None], queries, keys, names, colors, vmax=1)
    thin = {"color": "white", "linewidth": min(1, 50 / max(height, width))}
    axes.vlines(np.arange(1, width) - 0.5, -0.5, height - 0.5, **thin)
    axes.hlines(np.arange(1, height) - 0.5, -0.5, width - 0.5, **thin)
    handles = [Patch(color=BLUE, label="may attend"), Patch(color=PALE, label="may not")]
    figure.legend(handles=handles, frameon=False, loc="outside right center")
    return save_figure(figure, path, title)


def show_attention(weights, queries, keys) -> str:
    """One head's attention weights (T, S) as text: a line for each query, darker is more."""
    weights = check_array("TS", 0, weights=weights)
    queries = check_labels(weights.shape[0], queries=readable(queries))
    keys = check_labels(weights.shape[1], keys=readable(keys))
    shades = np.minimum((weights * len(SHADES)).astype(int), len(SHADES) - 1)
    margin = max(2, *map(text_columns, queries))
    widths = [text_columns(key) + 1 for key in keys]
    lines = [" " * (margin + 1) + "".join(map(pad_left, keys, widths))]
    for query, row in zip(queries, shades, strict=True):
        cells = (SHADES[shade] * width for shade, width in zip(row, widths, strict=True))
        lines.append(pad_left(query, margin) + " " + "".join(cells))
    return "\n".join(lines)
