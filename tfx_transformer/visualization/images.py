"""Plots of attention on images, position embeddings, filters, predictions and confusion matrices.

`rollout.py` computes the numbers. An image is (h, w, 3) or (h, w, 1), uint8 or floats in 0..1; a
map over it has R rows and S columns of patches. `path` is the file to write (png, svg or pdf by its
ending), `title` the text above the plot.
"""

import math
from pathlib import Path

import numpy as np
from matplotlib.colors import FuncNorm
from matplotlib.figure import Figure

from tfx_transformer.visualization.figure import (
    BLUE,
    GRAY,
    MAX_SIDE,
    RED,
    check_array,
    check_images,
    fit_size,
    grid_shape,
    make_panels,
    plot_grid,
    plot_image,
    plot_matrices,
    save_figure,
    to_gray,
)
from tfx_transformer.visualization.fonts import check_labels, shorten
from tfx_transformer.visualization.rollout import check_grid


def plot_rollout(image, rollout, path, title="") -> Path:
    """An image, and beside it the same in gray under the heat map of a `token_rollout` (R, S)."""
    (image,) = check_images(image=[image])
    rollout = check_array("RS", 0, rollout=rollout)
    width, height = fit_size(image, 3.2)
    figure, (left, right) = make_panels(2, width + 0.5, height + 0.4, 2, "compressed")
    plot_image(left, image)
    gray = 0.3 + 0.7 * to_gray(image)  # bright enough that the map keeps its colors
    extent = plot_image(right, gray, cmap="gray", vmin=0, vmax=1).get_extent()
    heat_map = right.imshow(rollout, alpha=0.65, interpolation="bilinear", extent=extent)
    figure.colorbar(heat_map, ax=[left, right], label="fraction")
    return save_figure(figure, path, title)


def plot_image_heads(image, maps, path, title="") -> Path:
    """An image, and each head's attention to its patches (H, R, S), from `token_attention`."""
    (image,) = check_images(image=[image])
    maps = check_array("HRS", 0, maps=maps)
    rows, columns = grid_shape(len(maps))
    width, height = fit_size(image, min(1.5, MAX_SIDE / (columns + 2)))
    large = min(rows, 2)  # the image is as large as one or four heads
    size = (large + columns) * (width + 0.1) + 0.8, rows * (height + 0.3) + 0.3
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(rows, columns + 1, width_ratios=[large] + [1] * columns)
    plot_image(figure.add_subplot(grid[:, 0]), image)
    style = {"vmin": 0, "vmax": maps.max() or 1, "interpolation": "nearest"}
    style["extent"] = (0, image.shape[1], image.shape[0], 0)
    for head, values in enumerate(maps):
        axes = figure.add_subplot(grid[head // columns, head % columns + 1])
        heat_map = plot_image(axes, values, **style)
        axes.set_title(f"head {head}", color=GRAY, fontsize=9)
    figure.colorbar(heat_map, ax=figure.axes, label="weight")
    return save_figure(figure, path, title)


def plot_regions(image, weights, pieces, path, title="") -> Path:
    """An image, then once for each word of its caption, brighter where the word attends.

    As in "Show, Attend and Tell", arXiv:1502.03044.

    Args:
        image: the captioned image.
        weights: (T, R, C), the attention from each word to each region.
        pieces: the T words.
    """
    (image,) = check_images(image=[image])
    weights = check_array("TRC", 0, weights=weights)
    pieces = check_labels(len(weights), pieces=pieces)
    count = len(weights) + 1
    figure, panels = make_panels(count, 1.6, fit_size(image, 1.6)[1] + 0.3, min(6, count))
    plot_image(panels[0], image)
    for axes, values, piece in zip(panels[1:], weights, pieces, strict=True):
        extent = plot_image(axes, to_gray(image), cmap="gray", vmin=0, vmax=1).get_extent()
        style = {"interpolation": "bicubic", "vmin": 0, "vmax": values.max() or 1, "alpha": 0.6}
        axes.imshow(values, "gray", extent=extent, **style)
        word = shorten(piece.replace("▁", " ").strip() or piece, 18)
        axes.set_xlabel(word, fontsize=9)
    return save_figure(figure, path, title)


def plot_distances(distances, path, title="") -> Path:
    """Mean attention distances (depth, H) in pixels: a dot per head, a line for their mean."""
    distances = check_array("LH", 0, distances=distances)
    depth = len(distances)
    figure, (axes,) = make_panels(1, min(10, 4 + 0.3 * depth), 3.4)
    blocks = np.arange(1, depth + 1)
    style: dict = {"color": BLUE, "alpha": 0.7, "markersize": 5, "markeredgewidth": 0}
    dots = axes.plot(blocks, distances, "o", **style)
    dots[0].set_label("one head")
    axes.plot(blocks, distances.mean(axis=1), color=GRAY, zorder=1.8, label="mean of the heads")
    axes.set(xlabel="block", ylabel="mean distance in pixels", xlim=(0.5, depth + 0.5))
    axes.set_ylim(0, 1.06 * distances.max() or 1)
    plot_grid(axes)
    figure.legend(frameon=False, loc="outside right center")
    return save_figure(figure, path, title)


def plot_similarities(similarity, grid: tuple[int, int], path, title="") -> Path:
    """For each position a small map of its similarity to all positions of the grid.

    In grids of more than 14 rows or columns, only every second, third … position has a map.

    Args:
        similarity: (N, N), from `position_similarity`.
        grid: R and S, with R·S = N.
    """
    similarity = check_array("NN", -math.inf, similarity=similarity)
    check_grid(len(similarity), grid)
    rows, columns = grid
    shown = [range(0, count, math.ceil(count / 14)) for count in (rows, columns)]
    maps = similarity.reshape(rows, columns, rows, columns)[np.ix_(*shown)]
    gaps = ((0, 0), (0, 0), (0, 1), (0, 1))  # an empty row and column between maps
    tiles = np.pad(maps, gaps, constant_values=np.nan).swapaxes(1, 2)
    tiles = tiles.reshape(-1, len(shown[1]) * (columns + 1))[:-1, :-1]
    side = min(0.9 / max(rows, columns), 9 / max(tiles.shape))  # of a cell, in inches
    height, width = np.multiply(side, tiles.shape)
    figure, (axes,) = make_panels(1, width + 1.4, height + 1, layout="compressed")
    heat_map = plot_image(axes, tiles, interpolation="nearest")
    axes.set(xlabel="column", ylabel="row")
    axes.set_xticks(np.arange(len(shown[1])) * (columns + 1) + (columns - 1) / 2, shown[1])
    axes.set_yticks(np.arange(len(shown[0])) * (rows + 1) + (rows - 1) / 2, shown[0])
    axes.tick_params(length=0)
    figure.colorbar(heat_map, label="cosine similarity")
    return save_figure(figure, path, title)


def plot_filters(filters, path, title="") -> Path:
    """Filters (K, P, P, 3) or (K, P, P, 1) in 0..1 as small images, row by row."""
    filters = check_images(filters=filters)
    side = min(0.7, MAX_SIDE / max(grid_shape(len(filters))))
    figure, panels = make_panels(len(filters), side, side, layout="compressed")
    for axes, values in zip(panels, filters, strict=True):
        plot_image(axes, values, interpolation="nearest")
    return save_figure(figure, path, title)


def plot_confusion(counts, class_names, path, title="") -> Path:
    """Confusion matrix: correct predictions in blue, wrong ones in red.

    The color is the fraction of the row; cells that are large enough also have their count.

    Args:
        counts: (C, C) whole numbers, a row for each true class, a column for each predicted one.
        class_names: labels of the C classes.
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
    figure, (axes,) = plot_matrices(signed[None], names, names, cell, cmap="RdBu", norm=scale)
    axes.set(xlabel="predicted", ylabel="true")
    size = min(10, 36 * cell, 90 * cell / len(f"{counts.max():.0f}"))  # points
    if size >= 4:
        for row, column in np.argwhere(counts):
            color = "white" if fractions[row, column] > 0.4 else "black"
            style = {"color": color, "fontsize": size, "ha": "center", "va": "center"}
            style["in_layout"] = False  # inside the matrix: measuring it would only cost time
            axes.text(column, row, f"{counts[row, column]:.0f}", **style)
    color_bar = figure.colorbar(axes.images[0], label="fraction of the row")
    ticks = (-1, -0.5, -0.1, 0, 0.1, 0.5, 1)
    color_bar.set_ticks(ticks, labels=[f"{abs(tick):g}" for tick in ticks])
    return save_figure(figure, path, title)


def plot_predictions(images, texts, path, title="", wrong=None) -> Path:
    """A grid of images, each with a text below.

    Args:
        images: images of any sizes.
        texts: one for each, of one or more lines; long lines are shortened.
        wrong: booleans, one for each; a wrong one has a red frame and text.
    """
    images = check_images(images=images)
    texts = check_labels(len(images), texts=texts)
    wrong = np.zeros(len(images), bool) if wrong is None else np.asarray(wrong)
    if wrong.shape != (len(images),) or wrong.dtype != bool:
        raise ValueError(
            f"wrong must be {len(images)} booleans; got shape {wrong.shape} of {wrong.dtype}"
        )
    side = min(1.5, MAX_SIDE / max(grid_shape(len(images))))  # inches
    size = min(8, max(5, 7 * side))  # points
    height = max(fit_size(image, side)[1] for image in images)
    height += size / 50 * max(len(text.splitlines()) for text in texts)
    figure, panels = make_panels(len(images), side, height)
    for axes, image, text, is_wrong in zip(panels, images, texts, wrong, strict=True):
        plot_image(axes, image)
        color = RED if is_wrong else "black"
        axes.spines[:].set(color=RED, linewidth=2, visible=is_wrong)
        lines = [shorten(line, int(100 * side / size)) for line in text.splitlines()]
        axes.set_xlabel("\n".join(lines), color=color, fontsize=size)
    return save_figure(figure, path, title)
