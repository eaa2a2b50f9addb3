"""Attention masks: boolean, True = may attend, broadcastable to (B, H, T, S)."""

import functools

import keras
from keras import ops


def padding_mask(ids, pad_id=0):
    """Padding mask of ids (B, S): (B, 1, 1, S), True at real tokens."""
    return ops.not_equal(ids, pad_id)[:, None, None, :]


def causal_mask(query_length, key_length, start=0):
    """Causal mask (1, 1, T, S): query `start + t` may attend to keys 0 … start + t."""
    query = start + ops.arange(query_length)[:, None]
    return (ops.arange(key_length) <= query)[None, None]


def local_mask(query_length, key_length, window, start=0):
    """Band mask (1, 1, T, S): query `start + t` may attend to the `window` keys around it.

    `window` is odd; a query near an end of the sequence has fewer keys.
    """
    query = start + ops.arange(query_length)[:, None]
    return (ops.abs(ops.arange(key_length) - query) <= window // 2)[None, None]


def combine_masks(*masks):
    """The logical and of masks; None stands for no mask."""
    given = [mask for mask in masks if mask is not None]
    return functools.reduce(ops.logical_and, given) if given else None


def expand_mask(mask, scores_shape, name="attention_mask"):
    """A mask (B, S), (B, T, S) or (B, H, T, S) → four axes; an error if it does not fit.

    `scores_shape` is (B, H, T, S) with None for unknown sizes; `name` is for the error.
    """
    if mask is None:
        return None
    dtype, shape = keras.backend.standardize_dtype(mask.dtype), tuple(mask.shape)
    if dtype != "bool":
        raise ValueError(f"{name} must be boolean, True = may attend; got dtype {dtype}")
    wanted = {2: scores_shape[::3], 3: scores_shape[:1] + scores_shape[2:], 4: scores_shape}
    sizes = zip(shape, wanted.get(len(shape), ()), strict=False)
    if len(shape) not in wanted or any(
        size not in (1, None) and rule not in (size, None) for size, rule in sizes
    ):
        raise ValueError(
            f"{name} must have shape (B, S), (B, T, S) or (B, H, T, S), where (B, H, T, S) = "
            f"{scores_shape}; got shape {shape}"
        )
    if len(shape) == 4:
        return mask
    return mask[:, None] if len(shape) == 3 else mask[:, None, None]
