"""The position-wise feed-forward network of a block, section 3.3 of arXiv:1706.03762."""

import functools
import math

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Serializable
from tfx_transformer.layers.dense import build_dense
from tfx_transformer.layers.dropout import Dropout


def gelu_for_training(x):
    """GELU x·Φ(x) with a custom gradient, faster than automatic differentiation.

    Only for training: an exported model would warn about custom gradients that it cannot save.
    """

    @ops.custom_gradient
    def function(x):
        cdf = 0.5 + 0.5 * ops.erf(x * math.sqrt(0.5))  # Φ(x)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            density = ops.exp(-0.5 * ops.square(x)) * (1 / math.sqrt(2 * math.pi))
            return upstream * (cdf + x * density)

        return x * cdf, gradient

    return function(x)


def swiglu(x):
    """swish(a)·b for the halves a, b of x (arXiv:2002.05202)."""
    a, b = ops.split(x, 2, axis=-1)
    return ops.silu(a) * b


ACTIVATION = {
    "gelu": functools.partial(ops.gelu, approximate=False),  # arXiv:1606.08415
    "gelu_tanh": functools.partial(ops.gelu, approximate=True),  # the original BERT and GPT-2 code
    "relu": ops.relu,  # the 2017 Transformer
    "swiglu": swiglu,
    "swish": ops.silu,  # arXiv:1710.05941
}
TRAINING_ACTIVATION = ACTIVATION | {"gelu": gelu_for_training}


class FeedForward(Serializable, keras.layers.Layer):
    """Feed-forward network: dense, activation, dense; (…, D) → (…, F) → (…, D).

    Args:
        mlp_dim: F.
        activation: "gelu", "gelu_tanh", "relu", "swish", or "swiglu", for which the first layer is
            2·F wide.
        dropout: rate after the activation, in training.
        initializer: of the kernels.
    """

    def __init__(
        self, mlp_dim, activation="gelu", dropout=0.0, initializer="glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        check_positive(mlp_dim=mlp_dim)
        check_choice(*ACTIVATION, activation=activation)
        check_rate(dropout=dropout)
        self.drop = Dropout(dropout, dtype=self.dtype_policy, name="drop")

    def build(self, x_shape):
        dim, parts = x_shape[-1], 2 if self.activation == "swiglu" else 1
        self.up = build_dense(self, "up", dim, parts * self.mlp_dim, parts)
        self.down = build_dense(self, "down", self.mlp_dim, dim)

    def call(self, x, training=None):
        activation = (TRAINING_ACTIVATION if training else ACTIVATION)[self.activation]
        hidden = self.up(ops.reshape(x, (-1, x.shape[-1])))  # (B·T, F), as in `apply_dense`
        hidden = self.drop(activation(hidden), training=training)
        return ops.reshape(self.down(hidden), (-1, *ops.shape(x)[1:]))
