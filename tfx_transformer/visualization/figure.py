"""Helpers of all plots: figures with panels, heat maps, argument checks and saving.

Figures are made without pyplot and global settings: they need no display and may run in threads.
"""

import math
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from tfx_transformer.visualization.fonts import (
    check_labels,
    font_families,
    shorten,
    text_columns,
    wrap,
)

BLUE, RED, GRAY, PALE = "#3b6ea5", "#c44e52", "0.45", "0.92"
ENDINGS = (".png", ".svg", ".pdf")
MAX_SIDE = 13  # inches of a grid; larger ones get smaller cells
FEW_PIXELS = 100  # of an image; below, pixels would be visible as squares


def make_panels(count: int, width: float, height: float, columns=None, layout="constrained"):
    """A figure and its grid of `count` axes, each about width x height inches."""
    columns = columns or grid_shape(count)[1]
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(columns * width, rows * height), layout=layout)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[count:]:
        unused.remove()
    return figure, panels[:count]


def grid_shape(count: int) -> tuple[int, int]:
    """Rows and columns of a nearly square grid with few empty cells."""
    near = math.ceil(math.sqrt(count))
    columns = min((near, near + 1), key=lambda columns: -count % columns)
    return math.ceil(count / columns), columns


def plot_matrices(matrices, queries=None, keys=None, names=("", ""), max_cell=0.4, **style):
    """Heat maps of matrices (M, T, S) with shared labels; returns the figure and its axes.

    `names` are those of the vertical and the horizontal axis. Wide column labels are rotated. Where
    cells are tiny, only every n-th has a label. Without labels, rows and columns are numbered
    from 1.
    """
    count, height, width = matrices.shape
    queries = check_labels(height, queries=range(1, height + 1) if queries is None else queries)
    keys = check_labels(width, keys=range(1, width + 1) if keys is None else keys)
    queries, keys = list(map(shorten, queries)), list(map(shorten, keys))
    rows, columns = grid_shape(count)
    cell = min(max_cell, MAX_SIDE / max(rows * height, columns * width))  # inches
    size = min(10, max(5, 40 * cell))  # of the font, in points
    step = math.ceil(size / (42 * cell))
    rotation, key_width = {}, label_width(keys, size)
    if key_width > 0.9 * cell * step:
        slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        rotation = slanted if count == 1 else {"rotation": 90}
    figure, panels = make_panels(
        count,
        width * cell + 0.2 + (label_width(queries, size) + 1.2) / columns,
        height * cell + 0.3 + (key_width + 0.8) / rows,
        layout="compressed",
    )
    for index, (axes, values) in enumerate(zip(panels, matrices, strict=True)):
        axes.imshow(values, interpolation="nearest", **style)
        axes.set(xlabel=names[1], ylabel=names[0])
        axes.tick_params(length=0)
        axes.spines[:].set_color(PALE)
        axes.set_yticks(range(0, height, step), queries[::step], fontsize=size)
        axes.set_xticks(range(0, width, step), keys[::step], fontsize=size, **rotation)
        axes.yaxis.set_visible(index % columns == 0)
        axes.xaxis.set_visible(index + columns >= count)  # no panel below
    return figure, panels


def label_width(labels: list[str], size: float) -> float:
    """About how many inches the widest label takes in a font of this size."""
    return max(map(text_columns, labels)) * size / 120


def line_colors(count: int) -> np.ndarray:
    """Colors (count, 4) that are easy to distinguish."""
    if count <= 10:
        return matplotlib.colormaps["tab10"](np.arange(count))
    return matplotlib.colormaps["turbo"](np.linspace(0.05, 0.95, count))


def fit_size(image, side: float) -> tuple[float, float]:
    """Width and height in inches of a panel for an image, the longer one being `side`."""
    height, width = image.shape[:2]
    return side * min(1, max(0.2, width / height)), side * min(1, max(0.2, height / width))


def plot_image(axes, image, interpolation=None, **style):
    """Plots an image without ticks and frame, smooth if it has few pixels."""
    axes.set(xticks=(), yticks=())
    axes.spines[:].set_visible(False)
    smooth = "bicubic" if max(image.shape[:2]) < FEW_PIXELS else "auto"
    return axes.imshow(image, interpolation=interpolation or smooth, **style)


def plot_overlay(axes, image, weights, top: float, **style):
    """A heat map of weights (R, S), from 0 to `top`, smooth over the image in gray."""
    brightness = np.clip(image @ (0.299, 0.587, 0.114), 0, 1)  # (h, w)
    extent = plot_image(axes, brightness, cmap="gray", vmin=0, vmax=1).get_extent()
    return plot_image(axes, weights, extent=extent, vmin=0, vmax=top or 1, **style)


def plot_grid(axes) -> None:
    """Light grid lines, two spines, and whole numbers on the x axis."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=PALE)
    locator = MaxNLocator(6, integer=True, steps=(1, 2, 5, 10), min_n_ticks=1)
    axes.xaxis.set(major_locator=locator, major_formatter="{x:,.0f}")


def save_figure(figure: Figure, path, title="") -> Path:
    """Writes the figure with fonts for all languages and without math text; creates the folder.

    This is set text by text, because matplotlib's settings are global.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"path must end in {', '.join(ENDINGS)}; got path={str(path)!r}")
    if title:
        columns = max(36, int(10 * figure.get_figwidth()))
        figure.suptitle("\n".join(map(partial(wrap, columns=columns), title.splitlines())))
    for text in figure.findobj(Text):
        text.set(fontfamily=font_families(), parse_math=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return path


def check_array(axes: str, minimum: float, **named) -> np.ndarray:
    """`check_array("HNN", 0, maps=maps)`: finite floats with these axes, equal letters equal."""
    ((name, value),) = named.items()
    array = np.asarray(value, dtype="float64")
    sizes = set(zip(axes, array.shape, strict=False))
    if array.ndim != len(axes) or not array.size or len(sizes) != len(set(axes)):
        names = ", ".join(axes)
        raise ValueError(f"{name} must have axes ({names}), none empty; got shape {array.shape}")
    for number in array[~np.isfinite(array) | (array < minimum)]:
        raise ValueError(f"{name} must be finite and not below {minimum}; got {number} in {name}")
    return array


def check_images(**named) -> list[np.ndarray]:
    """`check_images(images=images)`: each image as (h, w, 3) floats in 0..1; at least one."""
    ((name, values),) = named.items()
    images = []
    for image in map(np.asarray, values):
        if image.ndim != 3 or image.shape[2] not in (1, 3) or not image.size:
            shapes = "(h, w, 3) or (h, w, 1), none empty"
            raise ValueError(f"{name} must have shape {shapes}; got shape {image.shape}")
        if image.dtype == np.uint8:
            image = image / 255
        if not np.issubdtype(image.dtype, np.floating):
            raise ValueError(f"{name} must be uint8 or floats in 0..1; got {name} of {image.dtype}")
        for number in image[~((image >= -1e-3) & (image <= 1.001))]:  # with rounding errors
            raise ValueError(f"{name} must be uint8 or floats in 0..1; got {number} in {name}")
        images.append(np.repeat(image, 3 // image.shape[2], axis=2).clip(0, 1))
    if not images:
        raise ValueError(f"{name} must contain at least one image; got none")
    return images
