"""Decoding constraints: mask the log-probabilities (N, V) of tokens that must not be generated."""

import numpy as np
from keras import ops

MASKED = -1e9  # instead of -inf: sums and quotients stay finite, never NaN
MIN_LOG_PROB = -1e4  # of a required token to which the model gives probability 0


def is_allowed(log_prob):
    """Whether log-probabilities, or sums and scores of them, are not masked.

    A model may also mask tokens itself, with logits of -inf.
    """
    return log_prob > MASKED / 2


def forbid_tokens(log_probs, ids):
    """Mask the tokens `ids`."""
    is_banned = np.isin(np.arange(log_probs.shape[-1]), list(ids))  # (V,)
    return log_probs + np.where(is_banned, MASKED, 0.0).astype("float32")  # faster than a choice


def forbid_end(log_probs, end_id, too_short):
    """Mask END while `too_short`, a boolean scalar."""
    is_end = ops.arange(log_probs.shape[-1]) == end_id  # (V,)
    return ops.where(ops.logical_and(is_end, too_short), MASKED, log_probs)


def forbid_repeats(log_probs, tokens, count, size):
    """Mask tokens that would repeat an n-gram of `size` of the first `count` of tokens (N, L)."""
    num_starts = ops.shape(tokens)[1] - size + 1  # positions where an n-gram can begin
    num_starts = max(num_starts, 0) if isinstance(num_starts, int) else ops.maximum(num_starts, 0)
    num_rows = ops.shape(log_probs)[0]
    repeats = ops.arange(num_starts, dtype="int32") <= count - size  # complete n-grams only
    repeats = ops.broadcast_to(repeats, (num_rows, num_starts))
    for i in range(size - 1):  # the n-gram begins like the last size - 1 tokens of the row
        newest = ops.take(tokens, ops.maximum(count - size + 1 + i, 0), axis=1)  # (N,)
        repeats = ops.logical_and(repeats, tokens[:, i : i + num_starts] == newest[:, None])

    rows = ops.broadcast_to(ops.arange(num_rows, dtype="int32")[:, None], (num_rows, num_starts))
    indices = ops.stack([rows, tokens[:, size - 1 :]], axis=-1)  # the last token of each n-gram
    masked = ops.where(repeats, MASKED, ops.zeros_like(repeats, dtype="float32"))
    return ops.scatter_update(
        log_probs, ops.reshape(indices, (-1, 2)), ops.reshape(masked, (-1,)), reduction="min"
    )
