"""Attention masks. Everywhere in this project a mask is boolean and True means "may attend".

This is the only place where masks are made. They broadcast to (B, H, T, S).
"""

from keras import ops


def padding_mask(ids, pad_id=0):
    """(B, S) ids → (B, 1, 1, S): real tokens may be attended to, padding may not."""
    return ops.not_equal(ids, pad_id)[:, None, None, :]


def causal_mask(query_length, key_length, start=0):
    """(1, 1, T, S), the look-ahead mask: query `start + t` may see keys 0 … start + t."""
    query, key = _positions(query_length, key_length, start)
    return (key <= query)[None, None]


def local_mask(query_length, key_length, window, start=0):
    """(1, 1, T, S), a band: query `start + t` may see the `window` keys around its own position.

    `window` is odd; a query near an end of the sequence sees fewer.
    """
    query, key = _positions(query_length, key_length, start)
    return (ops.abs(key - query) <= window // 2)[None, None]


def combine_masks(*masks):
    """What all the masks allow; None stands for "everything" and may be among them."""
    combined = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def _positions(query_length, key_length, start):
    """The queries' positions (T, 1) and the keys' (S)."""
    return ops.arange(query_length)[:, None] + start, ops.arange(key_length)
