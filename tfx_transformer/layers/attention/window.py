"""Shifted-window attention (Swin, arXiv:2103.14030, section 3.2).

It needs a grid instead of a sequence, so it is not in ATTENTION.
"""

import numpy as np
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.layers.attention.base import pack_results
from tfx_transformer.layers.attention.dot_product import masked_softmax, merge_heads, weighted_sum
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention


class WindowAttention(MultiHeadAttention):
    """Attention within the w × w windows of a grid: (B, height, width, D) → the same shape.

    A grid of any size is padded to whole windows, and the padding is masked. With a shift the
    windows wrap around the edges; cells from opposite edges do not attend to each other.

    Args:
        dim, num_heads, dropout, initializer, qkv_bias: as in `multi_head.py`.
        window: w; windows are w × w cells.
        shift: cells by which the windows are shifted down and right: 0 or, in every second block
            of a Swin Transformer, w // 2. A grid of one window is not shifted.

    Returns:
        The output (B, height, width, D); with `return_attention_scores` also the scores
        (B, number of windows, H, w², w²).
    """

    def __init__(self, dim, num_heads, window=7, shift=0, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        check_positive(window=window)
        if not 0 <= shift < window:
            raise ValueError(f"shift must lie in 0 <= shift < window={window}; got shift={shift}")
        if self.position is not None:
            raise ValueError(f"position must be None; got position={self.position!r}")

    def build(self, x_shape):
        if x_shape[1] is None or x_shape[2] is None:
            raise ValueError(f"x must have a known height and width; got shape {tuple(x_shape)}")
        self.check_width(x=x_shape)
        super().build(x_shape)
        self.table = self.add_weight(
            shape=((2 * self.window - 1) ** 2, self.num_heads), initializer="zeros", name="table"
        )

    def call(self, x, return_attention_scores=False, training=None):
        height, width = x.shape[1:3]
        w = self.window
        rows, columns, down, right = self.windows(height, width)
        mask = window_mask(height, width, w, down, right)

        x = ops.pad(x, ((0, 0), (0, rows * w - height), (0, columns * w - width), (0, 0)))
        x = ops.roll(x, (-down, -right), axis=(1, 2))
        x = ops.reshape(x, (-1, rows, w, columns, w, self.dim))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, rows, columns, w, w, D)
        x = ops.reshape(x, (-1, w * w, self.dim))  # (B·windows, w², D)

        q = self.project_query(x, 0)  # (B·windows, H, w², K)
        k, v = self.project_context(x, 0)
        bias = ops.take(self.table, relative_index(w), axis=0)  # (w², w², H)
        scores = self.score(q, k, 0) + ops.transpose(bias, (2, 0, 1))
        scores = ops.reshape(scores, (-1, rows * columns, self.num_heads, w * w, w * w))
        weights = masked_softmax(scores, mask)  # (B, windows, H, w², w²)
        dropped = self.drop(weights, training=training)
        dropped = ops.reshape(dropped, (-1, self.num_heads, w * w, w * w))
        x = self.project_output(merge_heads(weighted_sum(dropped, v)))  # (B·windows, w², D)

        x = ops.reshape(x, (-1, rows, columns, w, w, self.dim))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))  # (B, rows, w, columns, w, D)
        x = ops.reshape(x, (-1, rows * w, columns * w, self.dim))
        x = ops.roll(x, (down, right), axis=(1, 2))
        return pack_results(x[:, :height, :width], weights, None, return_attention_scores)

    def windows(self, height, width):
        """Windows per column and per row, and their shift down and right."""
        rows, columns = -(-height // self.window), -(-width // self.window)
        down, right = (self.shift if windows > 1 else 0 for windows in (rows, columns))
        return rows, columns, down, right

    def on_grid(self, weights, height, width):
        """Scores by window → scores between all cells, (B, H, N, N), N = height · width.

        Cells are in row-major order; cells of different windows have a score of 0.
        """
        w = self.window
        rows, columns, down, right = self.windows(height, width)
        row = (np.arange(height) - down)[:, None] % (rows * w)  # in the grid of windows
        column = (np.arange(width) - right) % (columns * w)
        window = (row // w * columns + column // w).reshape(-1)  # (N,)
        cell = (row % w * w + column % w).reshape(-1)  # index in its window
        x = ops.transpose(weights, (0, 2, 1, 3, 4))
        x = ops.reshape(x, (-1, self.num_heads, rows * columns * w * w, w * w))
        x = ops.take(x, window * w * w + cell, axis=2)  # (B, H, N, w²), a row for each query
        x = ops.take(x, cell, axis=3)  # (B, H, N, N)
        return ops.where(window[:, None] == window, x, ops.zeros_like(x))


def relative_index(window):
    """(w², w²): the row of the bias table for each query and key, by the offset between them."""
    cells = np.stack(np.mgrid[:window, :window]).reshape(2, -1)  # row and column of each cell
    down, right = cells[:, :, None] - cells[:, None, :] + window - 1
    return down * (2 * window - 1) + right


def window_mask(height, width, window, down, right):
    """(windows, 1, w², w²), True = may attend; None if all cells may.

    A cell attends to real cells from its own side of the edge: after a shift of s, the first s rows
    of the padded grid follow the last ones, in the same window.
    """
    padded = [-(-side // window) * window for side in (height, width)]
    if padded == [height, width] and not (down or right):
        return None
    row, column = np.meshgrid(
        (np.arange(padded[0]) + down) % padded[0],
        (np.arange(padded[1]) + right) % padded[1],
        indexing="ij",
    )

    def cut(grid):  # (rows·w, columns·w) → (windows, w²)
        grid = grid.reshape(padded[0] // window, window, padded[1] // window, window)
        return grid.transpose(0, 2, 1, 3).reshape(-1, window * window)

    side = cut(2 * (row < down) + (column < right))
    real = cut((row < height) & (column < width))
    return ((side[:, :, None] == side[:, None, :]) & real[:, None, :])[:, None]
