"""Pictures of attention, positions and masks, as files and for a terminal.

Each file's ending (png, svg, pdf) chooses its format. A picture grows with its content up to a
limit; then its cells shrink. No pyplot and no settings: it needs no display and may run in threads.
"""

import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from tfx_transformer.fonts import check_labels, pad_left, save_figure, shorten, text_columns

INCH = (1, 1)  # a figure of one inch: places in it are in inches, and what is outside is saved too
LONGEST = 13  # inches of a map's longer side
SHADES = " ░▒▓█"
BLUE, RED, GREY, PALE = "#3b6ea5", "#c44e52", "0.45", "0.92"


def plot_attention(weights, path, queries=None, keys=None, title="") -> Path:
    """One head's weights, a row for each query: the brighter, the more it looks there.

    Args:
        weights: (T, S), none below zero.
        path: where to; the ending chooses the format (png, svg, pdf).
        queries, keys: labels of the T rows and the S columns.
        title: above the picture.
    """
    weights = _numbers("TS", 0, weights=weights)
    height, width = weights.shape
    figure, cell = Figure(figsize=INCH), _cell(height, width)
    axes, image = _map(figure, weights, cell, queries, keys)
    _headline(figure, width * cell / 2, height * cell + 0.1, title)
    _colour_bar(figure, image, width * cell, height * cell)
    return save_figure(figure, path)


def plot_heads(weights, path, queries=None, keys=None, title="") -> Path:
    """All heads (H, T, S), a small map for each, in the same colours; see `plot_attention`."""
    weights = _numbers("HTS", 0, weights=weights)
    num_heads, height, width = weights.shape
    rows, columns = _grid(num_heads)
    figure, cell = Figure(figsize=INCH), _cell(rows * height, columns * width)
    across, down = width * cell + 0.2, height * cell + 0.4  # inches from a panel to the next
    for head in range(num_heads):
        row, column = divmod(head, columns)
        axes, image = _map(figure, weights[head], cell, queries, keys, column * across, -row * down)
        image.set(clim=(0, weights.max() or 1))
        axes.set_title(f"head {head}", fontsize=9, color=GREY)
        if column > 0:
            axes.yaxis.set_visible(False)
        if head + columns < num_heads:  # a panel stands below
            axes.xaxis.set_visible(False)
    right = columns * across - 0.2
    _headline(figure, right / 2, down, title)
    _colour_bar(figure, image, right, rows * down - 0.4, bottom=(1 - rows) * down)
    return save_figure(figure, path)


def plot_word(weights, path, tokens, word: int, title="") -> Path:
    """Where one word of a text looks, a colour for each head: the "it → animal" picture.

    Lines and boxes are the stronger, the nearer a weight is to the greatest. After the
    visualisation in Tensor2Tensor (Vaswani et al. 2018, arXiv:1803.07416).

    Args:
        weights: (H, S), where each head looks from that word.
        path: where to; the ending chooses the format (png, svg, pdf).
        tokens: the S tokens of the text.
        word: which of them looks.
        title: above the picture.
    """
    weights = _numbers("HS", 0, weights=weights)
    num_heads, length = weights.shape
    tokens = list(map(shorten, check_labels(length, tokens=tokens)))
    if isinstance(word, bool) or not isinstance(word, int | np.integer) or not 0 <= word < length:
        raise ValueError(f"word must be a whole number in 0 <= word < {length}; got word={word!r}")
    row, box = _cell(length, 1, largest=0.28), min(0.14, 3 / num_heads)  # inches
    boxes = 2.5 + box * np.arange(num_heads + 1)  # where they begin, and where the last one ends
    figure = Figure(figsize=INCH)
    axes = figure.add_axes((0, 0, boxes[-1], length * row))
    axes.set(xlim=(0, boxes[-1]), ylim=(length - 0.5, -0.5))
    axes.set_axis_off()

    strength = weights / (weights.max() or 1)  # (H, S)
    colours = np.repeat(_head_colours(num_heads)[:, None], length, axis=1)  # (H, S, 4)
    colours[:, :, 3] = strength
    heads, keys = np.unravel_index(np.argsort(strength, axis=None), strength.shape)
    shift = 0.6 * ((heads + 0.5) / num_heads - 0.5)  # else the heads would hide each other
    lines = [[(0.1, word + y), (2.4, key + y)] for key, y in zip(keys, shift, strict=True)]
    widths = (0.3 + 3 * strength[heads, keys]) * row / 0.28
    axes.add_collection(LineCollection(lines, linewidths=widths, colors=colours[heads, keys]))

    for head, colour in enumerate(_head_colours(num_heads)):
        style = {"color": colours[head], "edgecolor": "0.8", "linewidth": 3 * box, "align": "edge"}
        axes.barh(np.arange(length) - 0.35, 0.85 * box, 0.7, boxes[head], **style)
        if head % math.ceil(0.14 / box) == 0:
            style = {"color": colour, "ha": "center", "fontsize": 6}
            axes.text(boxes[head] + 0.4 * box, -0.6, str(head), **style)
    axes.text(2.4, -0.6, "head", color=GREY, ha="right", fontsize=6)
    for index, token in enumerate(tokens):
        style = {"va": "center", "fontsize": min(11, 0.55 * 72 * row), "parse_math": False}
        axes.text(boxes[-1] + 0.05, index, token, **style)
        if index == word:
            style["bbox"] = {"facecolor": PALE, "edgecolor": "none", "pad": 2}
        axes.text(0, index, token, ha="right", color="black" if index == word else GREY, **style)
    _headline(figure, boxes[-1] / 2, length * row + 0.25, title)
    return save_figure(figure, path)


def plot_positions(encoding, path, title="") -> Path:
    """Position vectors (T, D): all as a map, and six dimensions, from fast to slow, as waves."""
    encoding = _numbers("TD", -math.inf, encoding=encoding)
    figure, (width, height) = Figure(figsize=INCH), (4.2, 3.2)
    axes = figure.add_axes((0, 0, width, height))
    limit = np.abs(encoding).max() or 1
    image = _image(axes, encoding, "RdBu", -limit, limit)
    axes.set(xlabel="dimension", ylabel="position")
    _colour_bar(figure, image, width, height, label="value")

    axes = figure.add_axes((width + 1.5, 0, width, height))
    # Sines and cosines may stand in turn or in halves: the speed is measured, not read off.
    speed = np.abs(np.diff(encoding, axis=0)).sum(axis=0)  # (D): the way each goes up and down
    moving = max(1, np.sum(speed > limit / 2))  # the slowest are flat lines: left out
    few = np.linspace(0, moving - 1, min(6, moving)).round().astype(int)
    chosen = np.argsort(-speed, kind="stable")[few]
    axes.set_prop_cycle(color=matplotlib.colormaps["viridis"](np.linspace(0.9, 0, len(few))))
    axes.plot(encoding[:, chosen], ".-", markersize=3, label=[f"dimension {d}" for d in chosen])
    axes.set_xlabel("position")
    _open_frame(axes)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _headline(figure, width + 0.75, height + 0.2, title)
    return save_figure(figure, path)


def plot_mask(mask, path, queries=None, keys=None, title="") -> Path:
    """A boolean mask (T, S): which keys each query may attend to; see `plot_attention`."""
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise ValueError(f"mask must be boolean, True = may attend; got mask of {mask.dtype}")
    height, width = _numbers("TS", 0, mask=mask).shape
    figure, cell = Figure(figsize=INCH), _cell(height, width)
    axes, image = _map(figure, mask, cell, queries, keys)
    image.set(cmap=ListedColormap([PALE, BLUE]), clim=(0, 1))
    thin = {"color": "white", "linewidth": min(1, 4 * cell)}
    axes.vlines(np.arange(1, width) - 0.5, -0.5, height - 0.5, **thin)
    axes.hlines(np.arange(1, height) - 0.5, -0.5, width - 0.5, **thin)
    _headline(figure, width * cell / 2, height * cell + 0.1, title)
    handles = [Patch(color=BLUE, label="may attend"), Patch(color=PALE, label="may not")]
    axes.legend(handles=handles, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return save_figure(figure, path)


def show_attention(weights, queries, keys) -> str:
    """One head's weights (T, S) for a terminal: a line for each query, the darker the more."""
    weights = _numbers("TS", 0, weights=weights)
    queries = check_labels(weights.shape[0], queries=queries)
    keys = check_labels(weights.shape[1], keys=keys)
    shades = np.minimum((weights * len(SHADES)).astype(int), len(SHADES) - 1)
    margin = max(2, *map(text_columns, queries))
    widths = [text_columns(key) + 1 for key in keys]
    lines = [" " * (margin + 1) + "".join(map(pad_left, keys, widths))]
    for query, row in zip(queries, shades, strict=True):
        cells = (SHADES[shade] * width for shade, width in zip(row, widths, strict=True))
        lines.append(pad_left(query, margin) + " " + "".join(cells))
    return "\n".join(lines)


def _numbers(letters: str, least: float, **named) -> np.ndarray:
    """`_numbers("TS", 0, weights=weights)`: an array with these axes, finite, from least up."""
    ((name, value),) = named.items()
    array = np.asarray(value, dtype="float64")
    if array.ndim != len(letters) or not array.size:
        axes = ", ".join(letters)
        raise ValueError(f"{name} must have axes ({axes}), none empty; got shape {array.shape}")
    for number in array[~np.isfinite(array) | (array < least)]:
        raise ValueError(f"{name} must be finite and not below {least}; got {number} in {name}")
    return array


def _cell(rows: int, columns: int, largest=0.4) -> float:
    """The side of a cell in inches."""
    return min(largest, LONGEST / max(rows, columns))


def _grid(count: int) -> tuple[int, int]:
    """Rows and columns of panels: near a square, with few empty places."""
    near = math.ceil(math.sqrt(count))
    columns = min((near, near + 1), key=lambda columns: -count % columns)
    return math.ceil(count / columns), columns


def _image(axes, values, colours: str, least: float, most: float):
    """Draws an array as cells, its first row on top, numbered on both sides."""
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for axis, inches in zip((axes.xaxis, axes.yaxis), axes.get_position().size, strict=True):
        axis.set(major_locator=_whole(inches / 0.35))
    limits = {"vmin": least, "vmax": most}
    return axes.imshow(values, colours, aspect="auto", interpolation="nearest", **limits)


def _map(figure, values, cell: float, queries, keys, left=0.0, bottom=0.0):
    """Draws (T, S) as cells with labels, and gives the axes and the image.

    Keys that are wider than a column are slanted; where cells are tiny, not all have a label.
    """
    rows, columns = values.shape
    axes = figure.add_axes((left, bottom, columns * cell, rows * cell))
    image = _image(axes, values, "viridis", 0, values.max() or 1)
    axes.set(xlabel="key", ylabel="query")
    size = min(10, max(5, 0.55 * 72 * cell))  # points, of which an inch has 72
    step = math.ceil(1.7 * size / (72 * cell))
    style: dict = {"fontsize": size, "parse_math": False}
    if queries is not None:
        labels = list(map(shorten, check_labels(rows, queries=queries)))
        axes.set_yticks(range(0, rows, step), labels[::step], **style)
    if keys is not None:
        labels = list(map(shorten, check_labels(columns, keys=keys)))
        if max(map(text_columns, labels)) * 0.6 * size > 0.9 * 72 * cell * step:
            style |= {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        axes.set_xticks(range(0, columns, step), labels[::step], **style)
    return axes, image


def _colour_bar(figure, image, left: float, height: float, bottom=0.0, label="weight") -> None:
    """To the right of maps which end at `left`, in the middle of their height."""
    length = min(max(height, 1), 4)  # inches
    axes = figure.add_axes((left + 0.15, bottom + (height - length) / 2, 0.12, length))
    figure.colorbar(image, cax=axes, label=label).outline.set_visible(False)


def _headline(figure, middle: float, bottom: float, title: str) -> None:
    figure.text(middle, bottom, title, ha="center", fontsize="large", parse_math=False)


def _head_colours(num_heads: int) -> np.ndarray:
    """(H, 4): as far apart as the number allows."""
    if num_heads <= 10:
        return matplotlib.colormaps["tab10"](np.arange(num_heads))
    return matplotlib.colormaps["turbo"](np.linspace(0.05, 0.95, num_heads))


def _open_frame(axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=PALE)
    axes.xaxis.set(major_locator=_whole(5), major_formatter="{x:,.0f}")


def _whole(most: float) -> MaxNLocator:
    """Whole numbers along an axis, in at most so many steps and at most ten."""
    return MaxNLocator(min(10, max(1, int(most))), integer=True, min_n_ticks=1, steps=(1, 2, 5, 10))
