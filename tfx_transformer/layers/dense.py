"""Helpers for dense layers."""

import keras
from keras import ops

from tfx_transformer.checks import check_divides


def build_dense(owner, name, input_dim, units, parts=1, use_bias=True):
    """A built Dense layer with the initializer and dtype of `owner`; see `PartsInitializer`."""
    dense = keras.layers.Dense(
        units,
        use_bias=use_bias,
        kernel_initializer=PartsInitializer(owner.initializer, parts),
        dtype=owner.dtype_policy,
        name=name,
    )
    dense.build((None, input_dim))
    return dense


def apply_dense(dense, x):
    """(…, D) → (…, dense.units), computed on two axes.

    TensorFlow fuses matmul, bias and activation into one kernel only on a matrix.
    """
    y = dense(ops.reshape(x, (-1, x.shape[-1])))
    return ops.reshape(y, (-1, *ops.shape(x)[1:-1], y.shape[-1]))


def apply_to_heads(dense, x, num_heads):
    """(B, T, D) → (B, H, T, dense.units / H)."""
    y = dense(ops.reshape(x, (-1, x.shape[-1])))
    shape = (num_heads, y.shape[-1] // num_heads)
    if x.shape[1] == 1:  # one step of decoding: nothing to transpose
        return ops.reshape(y, (-1, shape[0], 1, shape[1]))
    return ops.transpose(ops.reshape(y, (-1, ops.shape(x)[1], *shape)), (0, 2, 1, 3))


class PartsInitializer(keras.initializers.Initializer):
    """Initializes the parts of a joint kernel one by one, along the last axis.

    Glorot initialization depends on the width of a kernel: initialized as one matrix, keys and
    values would start smaller than apart.
    """

    def __init__(self, initializer, parts: int):
        self.initializer, self.parts = keras.initializers.get(initializer), parts

    def __call__(self, shape, dtype=None):
        check_divides(parts=self.parts, units=shape[-1])
        part = (*shape[:-1], shape[-1] // self.parts)
        kernels = [self.initializer_of(i)(part, dtype=dtype) for i in range(self.parts)]
        return ops.concatenate(kernels, axis=-1)

    def initializer_of(self, i):
        """The initializer of part i, with its own seed, so that no two parts are equal."""
        config = self.initializer.get_config()
        if isinstance(config.get("seed"), int):
            config["seed"] += i
        return type(self.initializer).from_config(config)

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer)
        return {"initializer": initializer, "parts": self.parts}
