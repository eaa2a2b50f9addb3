"""Pictures of what a Vision Transformer sees, has learned and takes for what, as files.

Drawn like those for texts in `plots.py`; the numbers come from `rollout.py`. A picture is (h, w, 3)
or (h, w, 1), uint8 or floats in 0..1; a map over it has R rows and S columns of patches.
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.colors import FuncNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tfx_transformer.checks import check_positive
from tfx_transformer.fonts import check_labels, save_figure, shorten
from tfx_transformer.plots import (
    BLUE,
    GREY,
    INCH,
    LONGEST,
    RED,
    _cell,
    _colour_bar,
    _grid,
    _headline,
    _map,
    _numbers,
    _open_frame,
    _whole,
)

GAP = 0.12  # inches between pictures
GREYS = (0.299, 0.587, 0.114)  # how bright red, green and blue look


def plot_rollout(image, rollout, path, title="") -> Path:
    """A picture, and beside it the same in grey under a map: the brighter, the more is seen.

    Args:
        image: (h, w, 3) or (h, w, 1).
        rollout: (R, S), none below zero, as `token_rollout` gives it.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
    """
    image = _picture(image=image)
    rollout = _numbers("RS", 0, rollout=rollout)
    width, height = _fit(image, 3.2)
    figure = Figure(figsize=INCH)
    axes = _canvas(figure, 2 * width + GAP, height)
    _place(axes, image, 0, 0, width, height)
    grey = 0.3 + 0.7 * (image @ GREYS)  # bright enough that the map keeps its colours
    _place(axes, grey, width + GAP, 0, width, height, cmap="gray", vmin=0, vmax=1)
    drawn = _place(axes, rollout, width + GAP, 0, width, height, interpolation="bilinear")
    drawn.set(alpha=0.65, clim=(rollout.min(), rollout.max()))
    _headline(figure, width + GAP / 2, 0.1, title)
    _colour_bar(figure, drawn, 2 * width + GAP, height, -height, "share")
    return save_figure(figure, path)


def plot_image_heads(image, maps, path, title="") -> Path:
    """A picture, and where each head looks in it, in the same colours.

    Args:
        image: (h, w, 3) or (h, w, 1).
        maps: (H, R, S), none below zero, as `token_attention` gives them.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
    """
    image = _picture(image=image)
    maps = _numbers("HRS", 0, maps=maps)
    rows, columns = _grid(len(maps))
    width, height = _fit(image, min(1.5, LONGEST / (columns + 2)))
    across, down = width + GAP, height + 0.3  # inches from a map to the next
    large = height + down if rows > 1 else height  # the picture stands beside one or two rows
    left = width * large / height + 0.3
    right, bottom = left + columns * across - GAP, rows * down - 0.3
    figure = Figure(figsize=INCH)
    axes = _canvas(figure, right, bottom)
    _place(axes, image, 0, 0, left - 0.3, large)
    limits = {"vmin": 0, "vmax": maps.max() or 1, "interpolation": "nearest"}
    for head, values in enumerate(maps):
        x, y = left + head % columns * across, head // columns * down
        drawn = _place(axes, values, x, y, width, height, **limits)
        axes.text(x + width / 2, y - 0.06, f"head {head}", color=GREY, ha="center", fontsize=9)
    _headline(figure, right / 2, 0.35, title)
    _colour_bar(figure, drawn, right, bottom, -bottom)
    return save_figure(figure, path)


def plot_distances(distances, path, title="") -> Path:
    """How far the heads look, (depth, H) in pixels: a dot for each head, a line for their mean."""
    distances = _numbers("LH", 0, distances=distances)
    depth = len(distances)
    figure = Figure(figsize=INCH)
    axes = figure.add_axes((0, 0, min(8, 2 + 0.3 * depth), 2.8))
    blocks = np.arange(depth)
    style: dict = {"color": BLUE, "alpha": 0.7, "markersize": 5, "markeredgewidth": 0}
    dots = axes.plot(blocks, distances, "o", **style)
    dots[0].set_label("a head")
    axes.plot(blocks, distances.mean(axis=1), color=GREY, zorder=1.8, label="mean of the heads")
    axes.set(xlabel="block", ylabel="mean distance in pixels", xlim=(-0.5, depth - 0.5))
    axes.set_ylim(0, 1.06 * distances.max() or 1)
    _open_frame(axes)
    axes.xaxis.set(major_locator=_whole(depth))
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    _headline(figure, axes.get_position().width / 2, 3, title)
    return save_figure(figure, path)


def plot_similarities(similarity, grid: tuple[int, int], path, title="") -> Path:
    """For each position a small map: how much the positions of all patches are like its own.

    In grids of more than 14 rows or columns, every second, third … position has a map.

    Args:
        similarity: (N, N), as `position_similarity` gives it.
        grid: R and S, with R·S = N.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
    """
    similarity = _numbers("NN", -math.inf, similarity=similarity)
    rows, columns = grid
    check_positive(rows=rows, columns=columns)
    if similarity.shape != (rows * columns,) * 2:
        raise ValueError(
            f"similarity must be {rows * columns} x {rows * columns} for grid={tuple(grid)}; "
            f"got shape {similarity.shape}"
        )
    shown = [range(0, count, math.ceil(count / 14)) for count in (rows, columns)]
    maps = similarity.reshape(rows, columns, rows, columns)[np.ix_(*shown)]
    down, across = maps.shape[:2]
    cell = min(0.9, 8 / max(down, across)) / max(rows, columns)  # inches
    width, height, gap = columns * cell, rows * cell, 0.06
    lefts, tops = np.arange(across) * (width + gap), np.arange(down) * (height + gap)
    right, bottom = lefts[-1] + width, tops[-1] + height
    figure = Figure(figsize=INCH)
    axes = _canvas(figure, right, bottom)
    limits = {"vmin": maps.min(), "vmax": maps.max(), "interpolation": "nearest"}
    for row, column in np.ndindex(down, across):
        place = lefts[column], tops[row], width, height
        drawn = _place(axes, maps[row, column], *place, **limits)
    axes.set_axis_on()
    axes.set_xticks(lefts + width / 2, shown[1])
    axes.set_yticks(tops + height / 2, shown[0])
    axes.set(xlabel="column", ylabel="row")
    _headline(figure, right / 2, 0.15, title)
    _colour_bar(figure, drawn, right, bottom, -bottom, "cosine similarity")
    return save_figure(figure, path)


def plot_filters(filters, path, title="") -> Path:
    """Filters (K, P, P, 3) or (K, P, P, 1) in 0..1 as small pictures, row by row."""
    filters = _pictures(filters=filters)
    rows, columns = _grid(len(filters))
    step = _cell(rows, columns, largest=0.7)  # inches from a filter to the next
    side = step - 0.06
    figure = Figure(figsize=INCH)
    axes = _canvas(figure, columns * step - 0.06, rows * step - 0.06)
    for index, values in enumerate(filters):
        row, column = divmod(index, columns)
        _place(axes, values, column * step, row * step, side, side, interpolation="nearest")
    _headline(figure, columns * step / 2, 0.1, title)
    return save_figure(figure, path)


def plot_confusion(counts, class_names, path, title="") -> Path:
    """Which class was taken for which: blue what was right, red what was wrong.

    A cell has the colour of its share in its row, and its count as a number where there is room.

    Args:
        counts: (C, C) whole numbers, a row for each true class, a column for each predicted one.
        class_names: labels of the C classes.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
    """
    counts = _numbers("CC", 0, counts=counts)
    num_classes = len(counts)
    if counts.shape != (num_classes, num_classes):
        raise ValueError(f"counts must have as many rows as columns; got shape {counts.shape}")
    for number in counts[counts % 1 > 0]:
        raise ValueError(f"counts must be whole numbers; got {number} in counts")
    names = check_labels(num_classes, class_names=class_names)
    total = counts.sum(axis=1, keepdims=True)
    shares = counts / np.where(total > 0, total, 1)
    signed = np.where(np.eye(num_classes, dtype=bool), shares, -shares)

    cell = _cell(num_classes, num_classes, largest=max(0.5, 1.5 / num_classes))
    figure = Figure(figsize=INCH)
    axes, drawn = _map(figure, signed, cell, names, names)
    axes.set(xlabel="predicted", ylabel="true")
    scale = FuncNorm((_root, lambda root: root * np.abs(root)), vmin=-1, vmax=1)
    drawn.set(cmap="RdBu", norm=scale)
    digits = len(f"{counts.max():.0f}")
    size = min(10, 0.5 * 72 * cell, 0.8 * 72 * cell / (0.64 * digits))  # points
    if size >= 4:
        for row, column in np.argwhere(counts):
            colour = "white" if shares[row, column] > 0.4 else "black"
            style = {"color": colour, "fontsize": size, "ha": "center", "va": "center"}
            style["in_layout"] = False  # inside the map: not measured, which would take as long
            axes.text(column, row, f"{counts[row, column]:.0f}", **style)
    side = num_classes * cell
    _headline(figure, side / 2, side + 0.1, title)
    _colour_bar(figure, drawn, side, side, label="share of the row")
    ticks = (-1, -0.5, -0.1, 0, 0.1, 0.5, 1)
    drawn.colorbar.set_ticks(ticks, labels=[f"{abs(tick):g}" for tick in ticks])
    return save_figure(figure, path)


def plot_predictions(images, texts, path, title="", wrong=None) -> Path:
    """A sheet of pictures, each with a text below.

    Args:
        images: pictures, of any sizes.
        texts: one for each; they may have lines. What is too long is cut.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
        wrong: booleans, one for each; a wrong one has a red frame and text.
    """
    images = _pictures(images=images)
    texts = check_labels(len(images), texts=texts)
    wrong = np.zeros(len(images), bool) if wrong is None else np.asarray(wrong)
    if wrong.shape != (len(images),) or wrong.dtype != bool:
        raise ValueError(
            f"wrong must be {len(images)} booleans; got shape {wrong.shape} of {wrong.dtype}"
        )
    rows, columns = _grid(len(images))
    side = _cell(rows, columns, largest=1.5) - GAP
    size = min(8, max(5, 7 * side))  # points, of which an inch has 72
    lines = [text.splitlines() for text in texts]
    sizes = [_fit(image, side) for image in images]
    tallest, line = max(height for _, height in sizes), 1.35 * size / 72  # inches
    down = tallest + line * max(map(len, lines)) + 0.2
    right = columns * (side + GAP) - GAP
    figure = Figure(figsize=INCH)
    axes = _canvas(figure, right, rows * down - 0.2)
    for index, (image, (width, height)) in enumerate(zip(images, sizes, strict=True)):
        middle = index % columns * (side + GAP) + side / 2
        bottom = index // columns * down + tallest
        corner = middle - width / 2, bottom - height
        _place(axes, image, *corner, width, height)
        if wrong[index]:
            frame: dict = {"fill": False, "edgecolor": RED, "linewidth": 2, "clip_on": False}
            axes.add_patch(Rectangle(corner, width, height, **frame))
        style: dict = {"color": RED if wrong[index] else "black", "fontsize": size}
        for number, text in enumerate(lines[index], 1):
            text = shorten(text, int(72 * side / (0.65 * size)))
            place = middle, bottom + line * number
            axes.text(*place, text, ha="center", parse_math=False, **style)
    _headline(figure, right / 2, 0.15, title)
    return save_figure(figure, path)


def _picture(**named) -> np.ndarray:
    """`_picture(image=image)`: (h, w, 3) in 0..1."""
    ((name, value),) = named.items()
    image = np.asarray(value)
    if image.ndim != 3 or image.shape[2] not in (1, 3) or not image.size:
        raise ValueError(
            f"{name} must have shape (h, w, 3) or (h, w, 1), none empty; got shape {image.shape}"
        )
    if image.dtype == np.uint8:
        image = image / 255
    elif not np.issubdtype(image.dtype, np.floating):
        raise ValueError(f"{name} must be uint8 or floats in 0..1; got {name} of {image.dtype}")
    slack = 1e-3  # what rounding may add to a picture that was scaled
    for number in image[~((image >= -slack) & (image <= 1 + slack))]:
        raise ValueError(f"{name} must be uint8 or floats in 0..1; got {number} in {name}")
    return np.repeat(image, 3 // image.shape[2], axis=2).clip(0, 1)


def _pictures(**named) -> list[np.ndarray]:
    ((name, values),) = named.items()
    values = list(values)
    if not values:
        raise ValueError(f"{name} must hold a picture or more; got none")
    return [_picture(**{name: value}) for value in values]


def _fit(image, side: float) -> tuple[float, float]:
    """Width and height in inches, of which the longer is `side`."""
    height, width = image.shape[:2]
    return side * width / max(width, height), side * height / max(width, height)


def _canvas(figure, width: float, height: float):
    """Axes to draw on in inches, from the upper left corner, which is the figure's (0, 0)."""
    axes = figure.add_axes((0, -height, width, height))
    axes.set(xlim=(0, width), ylim=(height, 0), autoscale_on=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_axis_off()
    return axes


def _place(axes, values, left, top, width, height, cmap="viridis", **style):
    """Draws a picture or a map in a rectangle of a canvas."""
    extent = (left, left + width, top + height, top)
    return axes.imshow(values, cmap, aspect="auto", extent=extent, **style)


def _root(signed):
    """Small shares are seen as well as large ones: the square root, with the sign kept."""
    return np.sign(signed) * np.sqrt(np.abs(signed))
