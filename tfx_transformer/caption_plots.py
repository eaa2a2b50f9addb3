"""A picture once for each word of its caption, with where the model looked for that word."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tfx_transformer.fonts import check_labels, save_figure, shorten
from tfx_transformer.image_plots import GAP, GREYS, _canvas, _fit, _picture, _place
from tfx_transformer.plots import INCH, _headline, _numbers

COLUMNS = 6  # pictures in a row
SIDE = 1.5  # inches: the longer one of a picture, and the room for a word


def plot_regions(image, weights, pieces, path, title="") -> Path:
    """The figure of arXiv:1502.03044: the brighter a region, the more the word was said of it.

    Args:
        image: (h, w, 3) or (h, w, 1).
        weights: (T, rows, columns), none below zero, how much each word read of each region.
        pieces: the T words.
        path: where to; the ending chooses the format (png, svg, pdf).
        title: above the picture.
    """
    image = _picture(image=image)
    weights = _numbers("TRC", 0, weights=weights)
    pieces = check_labels(len(weights), pieces=pieces)
    columns = min(COLUMNS, len(weights) + 1)
    rows = -(-(len(weights) + 1) // columns)
    width, height = _fit(image, SIDE)
    across, down = SIDE + GAP, height + 0.3  # inches from a picture to the next
    margin = (SIDE - width) / 2
    figure = Figure(figsize=INCH)
    axes = _canvas(figure, columns * across - GAP, rows * down)
    _place(axes, image, margin, 0, width, height)
    grey = np.clip(image @ GREYS, 0, 1)
    for number, (seen, piece) in enumerate(zip(weights, pieces, strict=True), 1):
        left, top = number % columns * across + margin, number // columns * down
        _place(axes, grey, left, top, width, height, cmap="gray", vmin=0, vmax=1)
        light = {"interpolation": "bicubic", "vmin": 0, "vmax": seen.max() or 1}
        drawn = _place(axes, seen, left, top, width, height, cmap="gray", **light)
        drawn.set(alpha=0.6)
        text = shorten(piece.replace("▁", " ").strip() or piece, 18)
        style: dict = {"ha": "center", "fontsize": 9, "parse_math": False}
        axes.text(left + width / 2, top + height + 0.18, text, **style)
    _headline(figure, (columns * across - GAP) / 2, 0.15, title)
    return save_figure(figure, path)
