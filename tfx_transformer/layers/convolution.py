"""Convolution over a sequence: causal or centered, dilated, with a cache for decoding."""

import keras
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.config import Serializable


class SequenceConv(Serializable, keras.layers.Layer):
    """Convolution over the positions of a sequence: (B, T, C) → (B, T, D).

    y_t = b + Σ_j W_j x_{t + (j - o)·dilation}, where o is kernel_size - 1 if it is causal, else
    (kernel_size - 1)/2. Positions outside of the sequence are zeros.

    Args:
        dim: D.
        kernel_size: number of positions j; odd unless `causal`.
        dilation: distance between two of them.
        causal: whether a position depends on itself and earlier ones only.
        initializer: of the kernel (kernel_size, C, D).

    Call arguments:
        x: (B, T, C).
        cache: the inputs of the last positions before x, from `empty_cache` or the previous call;
            only if `causal`.

    Returns:
        The output (B, T, D); with `cache` also the new cache.
    """

    def __init__(
        self, dim, kernel_size, dilation=1, causal=True, initializer="glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        check_positive(dim=dim, kernel_size=kernel_size, dilation=dilation)
        if not causal and kernel_size % 2 == 0:
            raise ValueError(f"kernel_size must be odd with causal=False; got {kernel_size=}")
        self.context = (kernel_size - 1) * dilation  # further positions that one output depends on

    def build(self, x_shape):
        self.channels = x_shape[-1]
        self.kernel = self.add_weight(
            shape=(self.kernel_size, self.channels, self.dim),
            initializer=self.initializer,
            name="kernel",
        )
        self.bias = self.add_weight(shape=(self.dim,), initializer="zeros", name="bias")

    def call(self, x, cache=None):
        if cache is not None and not self.causal:
            raise ValueError("cache needs causal=True; got causal=False")
        if cache is not None:
            padded = ops.concatenate([cache, x], axis=1)  # (B, context + T, C)
        elif self.causal:
            padded = ops.pad(x, ((0, 0), (self.context, 0), (0, 0)))
        else:
            padded = ops.pad(x, ((0, 0), (self.context // 2, self.context // 2), (0, 0)))
        # one product of matrices: on a CPU faster than a dilated convolution
        shifts = range(0, self.context + 1, self.dilation)
        views = [padded[:, i : (i - self.context) or None] for i in shifts]  # (B, T, C) each
        columns = ops.concatenate(views, axis=-1) if len(views) > 1 else padded
        columns = ops.reshape(columns, (-1, self.kernel_size * self.channels))
        y = ops.matmul(columns, ops.reshape(self.kernel, (-1, self.dim)))
        y = ops.reshape(ops.add(y, self.bias), (-1, ops.shape(x)[1], self.dim))
        return y if cache is None else (y, padded[:, ops.shape(x)[1] :])

    def empty_cache(self, batch_size):
        """Zeros for the inputs before the first position: (B, context, C)."""
        return ops.zeros((batch_size, self.context, self.channels), self.compute_dtype)
