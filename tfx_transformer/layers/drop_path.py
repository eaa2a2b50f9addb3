"""Stochastic depth (arXiv:1603.09382): in training, skip a residual branch for some examples."""

import keras
from keras import ops

from tfx_transformer.checks import check_rate
from tfx_transformer.config import Configured


class DropPath(Configured, keras.layers.Layer):
    """Zeroes whole examples with probability `rate` and scales the others up: (B, …) → (B, …).

    Args:
        rate: share of the examples for which the branch is dropped, in training.
        seed: of the draws; None for a different one each time.
    """

    def __init__(self, rate, seed=None, **kwargs):
        super().__init__(**kwargs)
        check_rate(rate=rate)
        self.rate, self.seed = rate, seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, x, training=None):
        if not training or self.rate == 0:
            return x
        shape = (ops.shape(x)[0], *(1 for _ in x.shape[1:]))
        kept = keras.random.uniform(shape, seed=self.seed_generator) >= self.rate
        return ops.where(kept, x * (1 / (1 - self.rate)), ops.zeros_like(x))
