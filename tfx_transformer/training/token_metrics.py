"""Token metrics: log-probability, perplexity and accuracy of the targets."""

import numpy as np
import tensorflow as tf

from tfx_transformer.runtime import graph
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.training.metrics import perplexity
from tfx_transformer.training.workers import Workers


class TokenMetrics:
    """Log-probability, perplexity and accuracy of a model, inputs → logits (B, T, V), on the target
    tokens of batches (inputs, targets, weights), which workers share; traced once."""

    def __init__(self, model, data, workers: Workers | None = None):
        self.model, self.loss = model, TokenCrossentropy(reduction=None)
        self.workers = workers or Workers()
        self.dataset = data.dataset()
        self.sums = graph(self._sums, *self.dataset.element_spec)

    def __call__(self, batches: int = -1) -> dict[str, float]:
        """The metrics of some batches, or of all; "log_prob" is the mean per token, in nats."""
        own = self.dataset.take(batches).shard(self.workers.count, self.workers.index)
        sums = [[float(x) for x in self.sums(*batch)] for batch in own]
        parts = self.workers.gather(np.array(sums).reshape(-1, 3))
        nats, correct, count = np.sum(np.concatenate(parts), axis=0).tolist()
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
