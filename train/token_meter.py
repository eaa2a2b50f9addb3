"""How well a model tells the tokens that are asked for."""

import numpy as np
import tensorflow as tf

from tfx_transformer.data.epochs import EpochData
from tfx_transformer.graph import graph
from tfx_transformer.losses import TokenCrossentropy
from tfx_transformer.metrics import perplexity


class TokenMeter:
    """Measures a model on triples whose targets are tokens (B, T); traced once.

    Args:
        model: inputs → logits (B, T, V).
        data: the epoch 0 of it counts.
    """

    def __init__(self, model, data: EpochData):
        self.model, self.loss = model, TokenCrossentropy(reduction=None)
        self.dataset = data.dataset()
        self.sums = graph(self._sums, *self.dataset.element_spec)

    def __call__(self, batches: int = -1) -> dict[str, float]:
        """The mean log-probability of a token, perplexity and accuracy of some batches, or of all.

        The first, in nats, is what runs are judged by: more of it is better.
        """
        found = [[float(x) for x in self.sums(*batch)] for batch in self.dataset.take(batches)]
        nats, right, count = np.sum(found, axis=0).tolist()
        return {
            "log_prob": -nats / max(count, 1),
            "perplexity": perplexity(-nats, count),
            "accuracy": 100 * right / max(count, 1),
            "tokens": int(count),
        }

    def _sums(self, inputs, targets, weights):
        """The loss, the right answers and the weights, each in sum."""
        logits = self.model(inputs, training=False)
        is_right = tf.cast(tf.argmax(logits, axis=-1, output_type=tf.int32) == targets, tf.float32)
        losses = self.loss(targets, logits)
        return [tf.reduce_sum(x * weights) for x in (losses, is_right, tf.ones_like(weights))]
