"""Cross-entropy of tokens with label smoothing."""

import keras
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
        logits = ops.cast(logits, "float32")
        if self.label_smoothing == 0:
            return ops.sparse_categorical_crossentropy(targets, logits, from_logits=True)
        # dense targets: one kernel, twice as fast as the sparse loss and a correction
        size = logits.shape[-1]
        one_hot = ops.one_hot(targets, size, dtype="float32")
        smooth = (1 - self.label_smoothing) * one_hot + self.label_smoothing / size
        return ops.categorical_crossentropy(smooth, logits, from_logits=True)
