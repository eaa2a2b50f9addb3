"""Operations of decoding loops on structures: nested tensors, as in `keras.tree`."""

import keras
from keras import ops

from tfx_transformer.backend import forget_size, gather, gather_each


def decode_loop(advance, rows, is_done, carry, index=0):
    """The rows (B, …) after steps `advance(index, rows, carry) -> rows, is_last, carry`.

    A sentence is done, and its rows stay the same, after a step where its `is_last` (B,) is True.
    """
    return _loop(advance, rows, is_done, carry, index)[1]


def decode_rounds(make_step, tensors, rows, is_done, carry, index=0, rows_per_sentence=1):
    """`decode_loop` in rounds: when half of the sentences are done, the others go on alone.

    This needs TensorFlow without XLA, because shapes change.

    Args:
        make_step: `make_step(tensors) -> advance` for the sentences of a round.
        tensors: what their steps read: {"sentences": (B, …), "rows": (B · rows_per_sentence, …)}.
        rows, is_done, carry, index: as in `decode_loop`.
        rows_per_sentence: rows of the carry for each sentence.
    """

    def is_open(numbers, *_):
        return ops.shape(numbers)[0] > 0

    def run_round(numbers, results, index, rows, is_done, carry, tensors):
        advance = make_step(tensors)
        index, rows, is_done, carry = _loop(advance, rows, is_done, carry, index, half=True)
        results = keras.tree.map_structure(
            lambda all, part: ops.scatter_update(all, numbers[:, None], part), results, rows
        )
        (keep,) = ops.nonzero(ops.logical_not(is_done))
        kept_rows = keep[:, None] * rows_per_sentence + ops.arange(rows_per_sentence, dtype="int32")
        kept_rows = ops.reshape(kept_rows, (-1,))
        numbers, rows, is_done = take_rows((numbers, rows, is_done), keep)
        tensors = {
            "sentences": take_rows(tensors["sentences"], keep),
            "rows": take_rows(tensors["rows"], kept_rows),
        }
        return numbers, results, index, rows, is_done, take_rows(carry, kept_rows), tensors

    numbers = ops.arange(ops.shape(is_done)[0], dtype="int32")
    current = numbers, rows, is_done, carry, tensors
    numbers, *current = keras.tree.map_structure(lambda x: forget_size(x, 0), current)
    variables = numbers, rows, ops.cast(index, "int32"), *current
    return ops.while_loop(is_open, run_round, variables)[1]


def _loop(advance, rows, is_done, carry, index, half=False):
    """Runs until all sentences, or `half` of them, are done → index, rows, is_done, carry."""

    def is_running(index, rows, is_done, carry):
        if not half:
            return ops.logical_not(ops.all(is_done))
        running = ops.sum(ops.cast(ops.logical_not(is_done), "int32"))
        return 2 * running > ops.shape(is_done)[0]

    def step(index, rows, is_done, carry):
        old = index, rows, is_done, carry
        rows, is_last, carry = advance(index, rows, carry)
        new = index + 1, keep_done_rows(is_done, old[1], rows), is_done | is_last, carry
        return restore_shapes(new, old)

    variables = ops.cast(index, "int32"), rows, is_done, carry
    return ops.while_loop(is_running, step, variables)


def restore_shapes(new, old):
    """A structure with the static shapes of an old one, which a step of the model may lose.

    TensorFlow refuses a variable that enters a loop as (3, 8) and leaves a step as (None, 8).
    """

    def restore(new, old):
        if new.shape == old.shape or None not in tuple(new.shape):
            return new
        sizes = zip(old.shape, ops.shape(new), strict=True)
        return ops.reshape(new, [size if known is None else known for known, size in sizes])

    return keras.tree.map_structure(restore, new, old)


def repeat_rows(structure, times):
    """(B, …) → (B · times, …), every row `times` times in succession."""
    if times == 1:
        return structure
    return keras.tree.map_structure(lambda x: ops.repeat(x, times, axis=0), structure)


def take_rows(structure, rows):
    """The rows (N,) of (N, …)."""
    return keras.tree.map_structure(lambda x: gather(x, rows), structure)


def batch_gather(structure, indices):
    """From every (B, M, …) the entries `indices` (B, K) of the second axis: (B, K, …)."""
    return keras.tree.map_structure(lambda x: gather_each(x, indices), structure)


def gather_one(x, indices):
    """From every row of (N, M) the entry at its index: (N,)."""
    return batch_gather(x, indices[:, None])[:, 0]


def concatenate(first, second):
    """(B, M, …) and (B, M′, …) → (B, M + M′, …)."""
    return keras.tree.map_structure(lambda a, b: ops.concatenate([a, b], axis=1), first, second)


def keep_done_rows(is_done, old, new):
    """The rows of `old` where `is_done` (B,), those of `new` elsewhere."""

    def choose(old, new):
        return ops.where(ops.reshape(is_done, (-1, *[1] * (len(old.shape) - 1))), old, new)

    return keras.tree.map_structure(choose, old, new)


def set_position(tokens, new, position):
    """Tokens (…, L) with `new` (…) at a position, a scalar."""
    is_position = ops.arange(ops.shape(tokens)[-1], dtype="int32") == position
    return ops.where(is_position, new[..., None], tokens)
