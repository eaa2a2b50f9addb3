"""Cross-entropy of tokens with label smoothing."""

import keras
from keras import ops

from tfx_transformer.checks import check_rate
from tfx_transformer.config import Serializable
from tfx_transformer.runtime import without_autograph


class TokenCrossentropy(Serializable, keras.losses.Loss):
    """Cross-entropy of tokens with label smoothing (arXiv:1512.00567, section 7), in float32.

    Targets (B, T), ids, and logits (B, T, V) → the mean over tokens, by sample weights (B, T).

    Args:
        label_smoothing: probability that is spread evenly over all tokens.
        reduction: as in Keras. On several replicas "sum" with `normalize_weights` is the exact
            mean over the whole batch; the default averages the means of the replicas.
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


def normalize_weights(weights, total=None):
    """Sample weights of a whole batch divided by their sum, for losses with reduction="sum".

    Keras sums the gradients of the replicas, so the loss is a mean on any number of them.
    """
    return weights / ops.maximum(ops.sum(weights) if total is None else total, 1.0)


def normalize_batches(data, count: int = 1):
    """A tf.data.Dataset of batches with normalized weights.

    The weights of `count` batches, whose gradients are averaged, are normalized together: the
    averaged gradient is that of one batch with all examples, and each token has the same weight.
    """

    def normalize(inputs, targets, weights):
        return inputs, targets, normalize_weights(weights)

    def normalize_together(inputs, targets, weights):  # data sets of `count` batches
        total = weights.reduce(0.0, without_autograph(lambda sum, w: sum + ops.sum(w)))
        share = without_autograph(lambda w: normalize_weights(w, total / count))
        return data.zip((inputs, targets, weights.map(share)))

    if count == 1:
        return data.map(without_autograph(normalize))
    return data.window(count).flat_map(without_autograph(normalize_together))
