"""Cross-entropy of tokens with label smoothing."""

import keras
import tensorflow as tf
from keras import ops

from tfx_transformer.checks import check_rate
from tfx_transformer.config import Serializable


class TokenCrossentropy(Serializable, keras.losses.Loss):
    """Cross-entropy of tokens with label smoothing (arXiv:1512.00567, section 7), in float32.

    Targets (B, T), ids, and logits (B, T, V) → the mean over tokens, by sample weights (B, T).

    Args:
        label_smoothing: probability that is spread evenly over all tokens.
        reduction: as in Keras. On several replicas the default averages the means of the replicas;
            "sum" with `use_updates` is the exact mean over the whole batch.
    """

    def __init__(
        self,
        label_smoothing=0.0,
        name="token_crossentropy",
        reduction="mean_with_sample_weight",
        **kwargs,
    ):
        super().__init__(name=name, reduction=reduction, **kwargs)
        check_rate(label_smoothing=label_smoothing)

    def call(self, targets, logits):
        shape, size = ops.shape(targets), logits.shape[-1]
        rows, labels = ops.reshape(logits, (-1, size)), ops.reshape(targets, (-1,))
        labels = ops.cast(labels, "int32")
        return ops.reshape(smoothed_crossentropy(rows, labels, self.label_smoothing), shape)


def smoothed_crossentropy(logits, labels, smoothing):
    """Logits (N, V) and labels (N,) → cross-entropy (N,), in float32.

    With p = softmax(logits) the loss is -(1 - s) log p[label] - s mean(log p), and its gradient is
    p - (1 - s) one_hot(label) - s / V: no other table (N, V) is needed than exp(logits).
    """

    @tf.custom_gradient
    def function(logits):
        z = tf.cast(logits, tf.float32)
        top = tf.reduce_max(z, axis=1)
        powers = tf.exp(z - top[:, None])
        total = tf.reduce_sum(powers, axis=1)
        loss = tf.math.log(total) + top - (1 - smoothing) * tf.gather(z, labels, batch_dims=1)
        if smoothing:
            loss -= smoothing * tf.reduce_mean(z, axis=1)

        def gradient(upstream):
            part = powers * (upstream / total)[:, None]
            if smoothing:
                part -= (smoothing / logits.shape[-1] * upstream)[:, None]
            places = tf.stack([tf.range(tf.size(labels)), labels], axis=1)
            part = tf.tensor_scatter_nd_sub(part, places, (1 - smoothing) * upstream)
            return tf.cast(part, logits.dtype)

        return loss, gradient

    return function(logits)
