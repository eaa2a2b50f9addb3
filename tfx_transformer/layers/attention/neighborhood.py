"""Neighborhood attention instead of a convolution (arXiv:1906.05909).

It needs a grid instead of a sequence, so it is not in ATTENTION.
"""

import numpy as np
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.layers.attention.base import pack_results
from tfx_transformer.layers.attention.dot_product import masked_softmax, merge_heads
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention


class NeighborhoodAttention(MultiHeadAttention):
    """Attention from each cell of a grid (B, height, width, D) to the w × w cells around it.

    Neighbors outside of the grid are masked. Keys get learned relative positions: the row offset in
    the first half of a head, the column offset in the second (section 3.1).

    Args:
        dim, num_heads, dropout, initializer, qkv_bias: as in `multi_head.py`; heads have an even
            width.
        window: w, odd.

    Returns:
        The output (B, height, width, D); with `return_attention_scores` also the scores
        (B, H, height · width, w²).
    """

    def __init__(self, dim, num_heads, window=7, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        check_positive(window=window)
        if window % 2 == 0:
            raise ValueError(f"window must be odd; got window={window}")
        if dim // num_heads % 2:
            raise ValueError(f"dim // num_heads must be even; got {dim // num_heads}")
        if self.position is not None:
            raise ValueError(f"position must be None; got position={self.position!r}")

    def build(self, x_shape):
        self.check_width(x=x_shape)
        super().build(x_shape)
        half = self.dim // self.num_heads // 2
        options = {"shape": (self.window, half), "initializer": "random_normal"}
        self.down = self.add_weight(name="down", **options)
        self.right = self.add_weight(name="right", **options)

    def call(self, x, return_attention_scores=False, training=None):
        height, width = x.shape[1:3]
        cells = height * width
        head_dim = self.dim // self.num_heads
        flat = ops.reshape(x, (-1, cells, self.dim))
        q = self.project_query(flat, 0)  # (B, H, N, K)
        k, v = (self.gather(y, height, width) for y in self.project_context(flat, 0))
        k = k + self.offsets()  # (B, H, N, w², K)

        scores = ops.einsum("bhnk,bhnwk->bhnw", q, k) * head_dim**-0.5  # (B, H, N, w²)
        weights = masked_softmax(scores, inside(height, width, self.window))
        dropped = ops.cast(self.drop(weights, training=training), v.dtype)
        y = merge_heads(ops.einsum("bhnw,bhnwk->bhnk", dropped, v))  # (B, N, D)
        output = ops.reshape(self.project_output(y), ops.shape(x))
        return pack_results(output, weights, None, return_attention_scores)

    def gather(self, x, height, width):
        """The neighbors of each cell: (B, H, N, K) → (B, H, N, w², K); zeros outside."""
        head_dim, edge = self.dim // self.num_heads, self.window // 2
        x = ops.reshape(x, (-1, height, width, head_dim))
        x = ops.pad(x, ((0, 0), (edge, edge), (edge, edge), (0, 0)))
        x = ops.reshape(x, (-1, (height + 2 * edge) * (width + 2 * edge), head_dim))
        x = ops.take(x, neighbors(height, width, self.window), axis=1)  # (B·H, N·w², K)
        return ops.reshape(x, (-1, self.num_heads, height * width, self.window**2, head_dim))

    def offsets(self):
        """The relative positions that are added to the keys: (w², K)."""
        down = ops.repeat(self.down, self.window, axis=0)
        right = ops.tile(self.right, (self.window, 1))
        return ops.cast(ops.concatenate([down, right], axis=-1), self.compute_dtype)


def neighbors(height, width, window):
    """(N·w²,): the neighbors of each cell by their index in the padded grid, row by row."""
    row = np.arange(height)[:, None, None, None] + np.arange(window)[:, None]
    column = np.arange(width)[:, None, None] + np.arange(window)
    return (row * (width + window - 1) + column).reshape(-1)


def inside(height, width, window):
    """(N, w²), True where a cell's neighbor lies in the grid."""
    grid = np.pad(np.ones((height, width), bool), window // 2)
    return grid.reshape(-1)[neighbors(height, width, window)].reshape(-1, window**2)
