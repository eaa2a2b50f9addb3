"""Plots of attention on images, position embeddings, filters and predictions.

`rollout.py` computes the numbers. An image is (h, w, 3) or (h, w, 1), uint8 or floats in 0..1; a
map over it has R rows and S columns of patches. `path` is the file to write (png, svg or pdf by its
ending), `title` the text above the plot.
"""

import math
from pathlib import Path

import numpy as np
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
    plot_overlay,
    save_figure,
)
from tfx_transformer.visualization.fonts import check_labels, shorten
from tfx_transformer.visualization.pieces import readable
from tfx_transformer.visualization.rollout import check_grid

OPACITY = 0.6  # of a heat map over an image
GAP = "0.8"  # color between the maps of positions


def plot_rollout(image, rollout, path, title="") -> Path:
    """An image, and beside it the same under the heat map of a `token_rollout` (R, S)."""
    (image,) = check_images(image=[image])
    rollout = check_array("RS", 0, rollout=rollout)
    width, height = fit_size(image, 3.2)
    figure, (left, right) = make_panels(2, width + 0.5, height + 0.4, 2, "compressed")
    plot_image(left, image)
    heat_map = plot_overlay(right, bright(image), rollout, rollout.max(), alpha=OPACITY)
    figure.colorbar(heat_map, ax=[left, right], label="fraction of the attention")
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
    for head, values in enumerate(maps):
        axes = figure.add_subplot(grid[head // columns, head % columns + 1])
        heat_map = plot_overlay(axes, bright(image), values, maps.max(), alpha=OPACITY)
        axes.set_title(f"head {head + 1}", color=GRAY, fontsize=9)
    figure.colorbar(heat_map, ax=figure.axes, label="attention weight")
    return save_figure(figure, path, title)


def bright(image) -> np.ndarray:
    """Bright enough that a heat map over it keeps its colors."""
    return 0.4 + 0.6 * image


def plot_regions(image, weights, pieces, path, title="") -> Path:
    """An image, then once for each word of its caption, brighter where the word attends.

    As in "Show, Attend and Tell", arXiv:1502.03044, but all words have the same scale.

    Args:
        image: the captioned image.
        weights: (T, R, C), the attention from each word to each region.
        pieces: the T words.
    """
    (image,) = check_images(image=[image])
    weights = check_array("TRC", 0, weights=weights)
    words = check_labels(len(weights), pieces=readable(pieces))
    count = len(weights) + 1
    figure, panels = make_panels(count, 1.6, fit_size(image, 1.6)[1] + 0.3, min(6, count))
    plot_image(panels[0], image)
    for axes, values, word in zip(panels[1:], weights, words, strict=True):
        heat_map = plot_overlay(axes, image, values, weights.max(), cmap="gray", alpha=0.6)
        axes.set_xlabel(shorten(word, 18), fontsize=9)
    figure.colorbar(heat_map, ax=panels, label="attention weight")
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

    The similarity is (N, N), from `position_similarity`. In grids of more than 14 rows or columns,
    only every second, third … position has a map.
    """
    similarity = check_array("NN", -math.inf, similarity=similarity)
    check_grid(len(similarity), grid)
    rows, columns = grid
    shown = [range(0, count, math.ceil(count / 14)) for count in (rows, columns)]
    maps = similarity.reshape(rows, columns, rows, columns)[np.ix_(*shown)]
    gaps = ((0, 0), (0, 0), (0, 1), (0, 1))  # an empty row and column between maps
    tiles = np.pad(maps, gaps, constant_values=np.nan).swapaxes(1, 2)
    tiles = tiles.reshape(-1, len(shown[1]) * (columns + 1))[:-1, :-1]
    cell = min(0.9 / max(rows, columns), 9 / max(tiles.shape))  # inches
    height, width = np.multiply(cell, tiles.shape)
    figure, (axes,) = make_panels(1, width + 1.4, height + 1, layout="compressed")
    heat_map = plot_image(axes, tiles, "nearest", cmap="RdBu", vmin=-1, vmax=1)
    axes.set(xlabel="column of the patch", ylabel="row of the patch", facecolor=GAP)
    for axis, numbers, side in ((axes.yaxis, shown[0], rows), (axes.xaxis, shown[1], columns)):
        middles = np.arange(len(numbers)) * (side + 1) + (side - 1) / 2
        axis.set_ticks(middles, [number + 1 for number in numbers])
    axes.tick_params(length=0)
    figure.colorbar(heat_map, label="cosine similarity")
    return save_figure(figure, path, title)


def plot_filters(filters, path, title="") -> Path:
    """Filters (K, P, P, 3) or (K, P, P, 1) in 0..1 as small images, row by row."""
    filters = check_images(filters=filters)
    side = min(0.7, MAX_SIDE / max(grid_shape(len(filters))))
    figure, panels = make_panels(len(filters), side, side, layout="compressed")
    for axes, values in zip(panels, filters, strict=True):
        plot_image(axes, values, "nearest")
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
