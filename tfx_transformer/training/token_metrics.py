"""Token metrics: log-probability, perplexity and accuracy of the targets."""

import numpy as np
import tensorflow as tf

from tfx_transformer.runtime import graph
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.training.metrics import perplexity


class TokenMetrics:
    """Log-probability, perplexity and accuracy of a model, inputs → logits (B, T, V), on the target
    tokens of batches (inputs, targets, weights); traced once."""

    def __init__(self, model, data):
        self.model, self.loss = model, TokenCrossentropy(reduction=None)
        self.dataset = data.dataset()
        self.sums = graph(self._sums, *self.dataset.element_spec)

    def __call__(self, batches: int = -1) -> dict[str, float]:
        """The metrics of some batches, or of all; "log_prob" is the mean per token, in nats."""
        sums = [[float(x) for x in self.sums(*batch)] for batch in self.dataset.take(batches)]
        nats, correct, count = np.sum(sums, axis=0).tolist()
        return {
            "log_prob": -nats / max(count, 1),
            "perplexity": perplexity(-nats, count),
            "accuracy": 100 * correct / max(count, 1),
            "tokens": int(count),
        }

    def _sums(self, inputs, targets, weights):
        """The sums of the loss, of the correct predictions and of the weights."""
        logits = self.model(inputs, training=False)
        predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
        is_correct = tf.cast(predictions == targets, tf.float32)
        losses = self.loss(targets, logits)
        return [tf.reduce_sum(x * weights) for x in (losses, is_correct, tf.ones_like(weights))]
