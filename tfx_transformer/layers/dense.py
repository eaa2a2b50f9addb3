"""Dense layers, used the fast way."""

import keras
from keras import ops

from tfx_transformer.checks import check_divides


def build_dense(owner, name, input_dim, units, parts=1, use_bias=True):
    """A built Dense layer with the initializer and dtype of `owner`; parts as in `SideBySide`."""
    dense = keras.layers.Dense(
        units,
        use_bias=use_bias,
        kernel_initializer=SideBySide(owner.initializer, parts),
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


class SideBySide(keras.initializers.Initializer):
    """Draws several kernels that are kept as one, each as if it stood alone.

    Glorot's rule looks at the width of a kernel: drawn at once, keys and values in one matrix
    would start smaller than apart.
    """

    def __init__(self, initializer, parts: int):
        self.initializer, self.parts = keras.initializers.get(initializer), parts

    def __call__(self, shape, dtype=None):
        check_divides(parts=self.parts, units=shape[-1])
        part = (*shape[:-1], shape[-1] // self.parts)
        draws = [self.another(i)(part, dtype=dtype) for i in range(self.parts)]
        return ops.concatenate(draws, axis=-1)

    def another(self, i):
        """The initializer with a seed of its own, so that no two parts are the same draw."""
        config = self.initializer.get_config()
        if isinstance(config.get("seed"), int):
            config["seed"] += i
        return type(self.initializer).from_config(config)

    def get_config(self):
        initializer = keras.initializers.serialize(self.initializer)
        return {"initializer": initializer, "parts": self.parts}
