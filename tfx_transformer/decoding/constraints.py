"""Constraints: log-probabilities (N, V) in, and out with some tokens pushed out of reach."""

import numpy as np
from keras import ops

FORBIDDEN = -1e9  # in place of -inf: its sums and quotients stay finite, and none is NaN
FLOOR = -1e4  # a token to which the model gives no probability counts so, if it must come


def is_allowed(log_prob):
    """Whether log-probabilities, or sums and scores of them, are of what may come.

    A model forbids tokens too, by logits of -inf.
    """
    return log_prob > FORBIDDEN / 2


def forbid_tokens(log_probs, ids):
    """Never the tokens `ids`."""
    is_banned = np.isin(np.arange(log_probs.shape[-1]), list(ids))  # (V,)
    return ops.where(is_banned, FORBIDDEN, log_probs)


def forbid_end(log_probs, end_id, too_short):
    """No END while `too_short`, a boolean scalar."""
    is_end = ops.arange(log_probs.shape[-1]) == end_id  # (V,)
    return ops.where(ops.logical_and(is_end, too_short), FORBIDDEN, log_probs)


def forbid_repeats(log_probs, tokens, count, size):
    """No n-gram of `size` tokens twice in a row's first `count` of tokens (N, L) and the next."""
    room = ops.shape(tokens)[1] - size + 1
    num_places = max(room, 0) if isinstance(room, int) else ops.maximum(room, 0)  # to begin at
    num_rows = ops.shape(log_probs)[0]
    repeats = ops.arange(num_places, dtype="int32") <= count - size  # whole n-grams only
    repeats = ops.broadcast_to(repeats, (num_rows, num_places))
    for i in range(size - 1):  # the n-gram begins as the row ends
        newest = ops.take(tokens, ops.maximum(count - size + 1 + i, 0), axis=1)  # (N,)
        repeats = ops.logical_and(repeats, tokens[:, i : i + num_places] == newest[:, None])

    rows = ops.broadcast_to(ops.arange(num_rows, dtype="int32")[:, None], (num_rows, num_places))
    places = ops.stack([rows, tokens[:, size - 1 :]], axis=-1)  # the token that ended it then
    most = ops.where(repeats, FORBIDDEN, ops.zeros_like(repeats, dtype="float32"))
    return ops.scatter_update(
        log_probs, ops.reshape(places, (-1, 2)), ops.reshape(most, (-1,)), reduction="min"
    )
