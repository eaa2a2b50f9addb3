"""Sampling with temperature, top-k and top-p."""

import math
from dataclasses import dataclass, replace

import keras
from keras import ops

from tfx_transformer.backend import gather
from tfx_transformer.checks import check_fraction, check_positive, check_whole
from tfx_transformer.decoding.constraints import is_allowed
from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.greedy import decode_rows
from tfx_transformer.decoding.loop import gather_one


def temperature_weights(log_probs, temperature):
    """Log-probabilities (N, M) → weights p^(1/temperature) (N, M), 1 for the most likely token."""
    difference = log_probs - ops.max(log_probs, axis=-1, keepdims=True)
    return ops.where(is_allowed(log_probs), ops.exp(difference / temperature), 0.0)


def nucleus_weights(weights, top_p):
    """Weights (N, M) in descending order: the fewest that sum to `top_p` of all; 0 for the rest."""
    running = ops.cumsum(weights, axis=-1)
    return ops.where(running - weights < top_p * running[:, -1:], weights, 0.0)


def sample_index(weights, uniform):
    """Sample an index (N,) by weights (N, M), from random numbers in 0 … 1 (N,).

    The numbers are generated before the loop, so that it contains no random generator.
    """
    running = ops.cumsum(weights, axis=-1)
    is_past = running > uniform[:, None] * running[:, -1:]
    is_past = ops.logical_and(is_past, weights > 0)  # parallel sums need not be monotonic
    return ops.argmax(ops.where(is_past, math.inf, weights), axis=-1)  # if none: the most likely


@dataclass(frozen=True)
class SamplingDecoder(Decoder):
    """Sample each token from the model's distribution, with temperature, top-k and top-p.

    The temperature is applied first, then `top_k`, then `top_p` to the tokens that are left. The
    score is the model's own log-probability. Samples are independent and in no order. `seed` may
    also be a `keras.random.SeedGenerator`, which a SavedModel needs to sample anew at each call.

    Arguments, call and returns: see `Decoder`, and:

    Args:
        temperature: above 0; below 1 favors likely tokens, close to 0 is greedy decoding.
        top_k: sample from this many most likely tokens (arXiv:1805.04833); 0 means all.
        top_p: sample from the most likely tokens whose probabilities sum to this
            (arXiv:1904.09751); without `top_k` this sorts the vocabulary at each step: slow.
        seed: a whole number, which gives the same samples each time (others with XLA); without it
            the samples are random.
        n_best: number of results for each input, at most `width` with beam search.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    n_best: int = 1

    def __post_init__(self):
        super().__post_init__()
        check_whole(top_k=self.top_k)
        check_positive(n_best=self.n_best)
        if self.seed is not None and not isinstance(self.seed, keras.random.SeedGenerator):
            check_whole(seed=self.seed)
        if not isinstance(self.temperature, int | float) or not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be above 0; got temperature={self.temperature!r}")
        check_fraction(top_p=self.top_p)

    @property
    def rows_per_sentence(self):
        return self.n_best

    def search(self, call):
        random = call.random
        if random is None:
            shape = (call.num_rows, call.max_length)
            random = keras.random.uniform(shape, dtype="float32", seed=self.seed)
        return decode_rows(
            self,
            replace(call, random=random),
            lambda call, allowed, index: self.choose(allowed, gather(call.random, index, axis=1)),
        )

    def choose(self, allowed, uniform):
        """Log-probabilities (N, V) and random numbers in 0 … 1 (N,) → tokens (N,)."""
        if not self.top_k and self.top_p == 1:
            return sample_index(temperature_weights(allowed, self.temperature), uniform)
        vocab_size = allowed.shape[-1]
        log_probs, tokens = ops.top_k(allowed, min(self.top_k or vocab_size, vocab_size))
        weights = nucleus_weights(temperature_weights(log_probs, self.temperature), self.top_p)
        return gather_one(tokens, sample_index(weights, uniform))
