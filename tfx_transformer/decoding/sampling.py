"""Sampling: tokens drawn by chance, all of them or the likeliest alone."""

import math
from dataclasses import dataclass

import keras
from keras import ops

from tfx_transformer.checks import check_positive, check_whole
from tfx_transformer.decoding.constraints import is_allowed
from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.loop import pick
from tfx_transformer.decoding.walk import walk


def temper(log_probs, temperature):
    """Log-probabilities (N, M) → weights p^(1/temperature) (N, M), 1 for the likeliest token."""
    distance = log_probs - ops.max(log_probs, axis=-1, keepdims=True)
    return ops.where(is_allowed(log_probs), ops.exp(distance / temperature), 0.0)


def keep_nucleus(weights, share):
    """Weights (N, M) in falling order: the fewest that make up `share` of all; 0 behind them."""
    running = ops.cumsum(weights, axis=-1)
    return ops.where(running - weights < share * running[:, -1:], weights, 0.0)


def draw(weights, chance):
    """Where the running sum of weights (N, M) passes `chance` (N,), in 0 … 1, of the whole: (N,).

    One number a row, drawn beforehand, does for a random generator inside the loop.
    """
    running = ops.cumsum(weights, axis=-1)
    is_past = running > chance[:, None] * running[:, -1:]
    is_past = ops.logical_and(is_past, weights > 0)  # parallel sums need not grow steadily
    return ops.argmax(ops.where(is_past, math.inf, weights), axis=-1)  # if none is: the likeliest


@dataclass(frozen=True)
class SamplingDecoder(Decoder):
    """Draws each token from the model's distribution, made sharper or cut short.

    Temperature acts first, then `top_k`, then `top_p` on what that leaves. The score is the
    model's own log-probability, whatever was drawn from. Samples are independent, in no order.

    Arguments, call and returns as in `decoder.py`, with n_best = num_samples, and:

    Args:
        temperature: above 0; below 1 sharpens, towards 0 it becomes greedy decoding.
        top_k: only the so many likeliest tokens (arXiv:1805.04833); 0 allows all.
        top_p: only the likeliest tokens that make up this share (arXiv:1904.09751, section 3.1).
            Without `top_k` the whole vocabulary is sorted at each step, which is slow.
        seed: the same whole number gives the same tokens (others under XLA); None draws from
            Keras's global seed. A `keras.random.SeedGenerator` does too, and is what a SavedModel
            that draws anew in each call must keep.
        num_samples: how many for each sentence.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    num_samples: int = 1

    def __post_init__(self):
        super().__post_init__()
        check_whole(top_k=self.top_k)
        check_positive(num_samples=self.num_samples)
        if self.seed is not None and not isinstance(self.seed, keras.random.SeedGenerator):
            check_whole(seed=self.seed)
        if not isinstance(self.temperature, int | float) or not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be above 0; got temperature={self.temperature!r}")
        if not isinstance(self.top_p, int | float) or not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in 0 < top_p <= 1; got top_p={self.top_p!r}")

    @property
    def copies(self):
        return self.num_samples

    def search(self, task):
        shape = (task.num_rows, task.max_length)
        chances = keras.random.uniform(shape, dtype="float32", seed=self.seed)
        return walk(
            self,
            task,
            lambda allowed, index: self.choose(allowed, ops.take(chances, index, axis=1)),
        )

    def choose(self, allowed, chance):
        """Log-probabilities (N, V) and numbers in 0 … 1 (N,) → tokens (N,)."""
        if not self.top_k and self.top_p == 1:
            return draw(temper(allowed, self.temperature), chance)
        vocab_size = allowed.shape[-1]
        likeliest, tokens = ops.top_k(allowed, min(self.top_k or vocab_size, vocab_size))
        weights = keep_nucleus(temper(likeliest, self.temperature), self.top_p)
        return pick(tokens, draw(weights, chance))
