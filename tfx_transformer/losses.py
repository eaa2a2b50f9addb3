"""Losses."""

import keras
from keras import ops

from tfx_transformer.checks import check_rate


@keras.saving.register_keras_serializable("tfx_transformer")
class TokenCrossentropy(keras.losses.Loss):
    """Cross-entropy of the next token, with label smoothing (arXiv:1512.00567, section 7).

    targets (B, T) ids and logits (B, T, V) → (B, T), in float32. With sample weights whose sum over
    the whole batch is one and `reduction="sum"`, the loss is the mean over real tokens, also when a
    batch is spread over replicas; see `share_of_batch`.

    Args:
        label_smoothing: share of the probability that is spread evenly over all tokens.
    """

    def __init__(self, label_smoothing=0.0, name="token_crossentropy", reduction="sum", **kwargs):
        super().__init__(name=name, reduction=reduction, **kwargs)
        check_rate(label_smoothing=label_smoothing)
        self.label_smoothing = label_smoothing

    def call(self, targets, logits):
        logits = ops.cast(logits, "float32")
        if self.label_smoothing == 0:
            return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        # against whole distributions: one kernel, twice as fast as the sparse loss and a correction
        size = logits.shape[-1]
        one = ops.one_hot(targets, size, dtype="float32")
        smooth = (1 - self.label_smoothing) * one + self.label_smoothing / size
        return ops.categorical_crossentropy(smooth, logits, from_logits=True)

    def get_config(self):
        return super().get_config() | {"label_smoothing": self.label_smoothing}


def share_of_batch(weights):
    """Weights (B, T) of a whole batch → their shares, so that a sum of losses is their mean.

    Keras adds up the gradients of the replicas, so a part of the batch on each needs nothing more.
    """
    return weights / ops.maximum(ops.sum(weights), 1.0)
