"""Normalization by name. All kinds are called as `norm(x, token_mask=…, training=…)`.

Only batch norm uses the token mask: its statistics are over all positions, without padding.
"""

import keras
from keras import ops

from tfx_transformer.checks import check_above_zero, check_rate
from tfx_transformer.config import Serializable
from tfx_transformer.registry import Registry
from tfx_transformer.runtime import mean_over_replicas


class LayerNorm(Serializable, keras.layers.Layer):
    """Layer normalization over the features (arXiv:1607.06450): scale·(x − mean)/std + offset.

    Computed in float32 whatever the dtype of x, (…, D) → (…, D).
    """

    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        check_above_zero(epsilon=epsilon)

    def build(self, x_shape):
        shape = x_shape[-1:]
        self.scale = self.add_weight(shape=shape, initializer="ones", name="scale")
        self.offset = self.add_weight(shape=shape, initializer="zeros", name="offset")

    def call(self, x, token_mask=None, training=None):
        scale, offset = ops.cast(self.scale, "float32"), ops.cast(self.offset, "float32")
        norm = layer_norm_for_training if training else layer_norm
        return ops.cast(norm(ops.cast(x, "float32"), scale, offset, self.epsilon), x.dtype)


def layer_norm(x, scale, offset, epsilon):
    """Normalizes the last axis, by fewer operations than `ops.layer_normalization`."""
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    deviation = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)
    return centered * deviation * scale + offset


def layer_norm_for_training(x, scale, offset, epsilon):
    """`layer_norm` with a custom gradient, faster than automatic differentiation.

    Only for training: an exported model would warn about custom gradients that it cannot save.
    """

    @ops.custom_gradient
    def function(x, scale, offset):
        centered = x - ops.mean(x, axis=-1, keepdims=True)
        deviation = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)
        unit = centered * deviation

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            batch_axes = tuple(range(len(x.shape) - 1))
            g = upstream * scale
            along = ops.mean(g * unit, axis=-1, keepdims=True)
            return (
                (g - ops.mean(g, axis=-1, keepdims=True) - unit * along) * deviation,
                ops.sum(upstream * unit, axis=batch_axes),
                ops.sum(upstream, axis=batch_axes),
            )

        return ops.add(unit * scale, offset), gradient

    return function(x, scale, offset)


class RMSNorm(Serializable, keras.layers.Layer):
    """RMS normalization over the features (arXiv:1910.07467): scale·x/√(mean(x²)), in float32."""

    def __init__(self, epsilon=1e-6, **kwargs):
        super().__init__(**kwargs)
        check_above_zero(epsilon=epsilon)

    def build(self, x_shape):
        self.scale = self.add_weight(shape=x_shape[-1:], initializer="ones", name="scale")

    def call(self, x, token_mask=None, training=None):
        return ops.rms_normalization(x, self.scale, axis=-1, epsilon=self.epsilon)


class ReplicaBatchNormalization(keras.layers.BatchNormalization):
    """Keras's batch normalization, with the statistics of all replicas, also of masked inputs."""

    def _moments(self, x, mask):
        real = ops.ones_like(x[..., :1]) if mask is None else ops.cast(mask[..., None], x.dtype)
        axes = tuple(range(len(x.shape) - 1))
        count = mean_over_replicas(ops.sum(real)) + keras.backend.epsilon()
        mean = mean_over_replicas(ops.sum(x * real, axes)) / count
        variance = mean_over_replicas(ops.sum(ops.square(x - mean) * real, axes)) / count
        return mean, variance


class BatchNorm(Serializable, keras.layers.Layer):
    """Batch normalization over all real positions (arXiv:1502.03167), in float32.

    Args:
        epsilon: added to the variance.
        momentum: of the moving mean and variance, which are used outside of training.

    Call arguments:
        x: (B, T, D).
        token_mask: boolean (B, T), True at real tokens; padding does not enter the statistics.
    """

    def __init__(self, epsilon=1e-6, momentum=0.99, **kwargs):
        super().__init__(**kwargs)
        check_above_zero(epsilon=epsilon)
        check_rate(momentum=momentum)
        self.norm = ReplicaBatchNormalization(
            epsilon=epsilon, momentum=momentum, dtype=self.dtype_policy, name="norm"
        )

    def build(self, x_shape):
        self.norm.build(x_shape)

    def call(self, x, token_mask=None, training=None):
        y = self.norm(x, training=training, mask=token_mask)
        return ops.copy(y)  # drops the mask that Keras attaches to y: later layers would warn


NORM = Registry("norm", {"batch": BatchNorm, "layer": LayerNorm, "rms": RMSNorm})
