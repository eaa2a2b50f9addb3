"""Stochastic depth (drop path, arXiv:1603.09382)."""

import keras
from keras import ops

from tfx_transformer.checks import check_rate
from tfx_transformer.config import Serializable


class DropPath(Serializable, keras.layers.Layer):
    """Stochastic depth: zeros whole examples with probability `rate`, scales up the others.

    (B, …) → (B, …), in training only.

    Args:
        rate: probability that an example is dropped.
        seed: of the samples; None for a different one each time.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_rate(rate=rate)
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, x, training=None):
        if not training or self.rate == 0:
            return x
        shape = (ops.shape(x)[0], *(1 for _ in x.shape[1:]))
        kept = keras.random.uniform(shape, seed=self.seed_generator) >= self.rate
        return ops.where(kept, x * (1 / (1 - self.rate)), ops.zeros_like(x))
