"""What a decoding loop is made of. A structure is any nesting of tensors, as in `keras.tree`."""

import keras
from keras import ops


def while_loop(condition, body, variables):
    """`ops.while_loop` whose variables keep their static shapes, whatever `body` forgets of them.

    TensorFlow refuses a variable that enters a step as (3, 8) and leaves it as (None, 8).
    """

    def keep_shape(new, old):
        return new if new.shape == old.shape else ops.reshape(new, ops.shape(old))

    def steady(*old):
        return keras.tree.map_structure(keep_shape, tuple(body(*old)), tuple(old))

    return ops.while_loop(condition, steady, tuple(variables))


def repeat_rows(structure, times):
    """(B, …) → (B · times, …), every row `times` times in succession."""
    if times == 1:
        return structure
    return keras.tree.map_structure(lambda x: ops.repeat(x, times, axis=0), structure)


def take_rows(structure, rows):
    """The rows (N,) of (N, …)."""
    return keras.tree.map_structure(lambda x: ops.take(x, rows, axis=0), structure)


def select(structure, places):
    """From every (B, M, …) the entries `places` (B, K) of the second axis: (B, K, …)."""
    num_rows, size = ops.shape(places)[0], keras.tree.flatten(structure)[0].shape[1]
    rows = ops.arange(num_rows, dtype="int32")[:, None] * size + places  # of the flat (B · M, …)
    return keras.tree.map_structure(
        lambda x: ops.take(ops.reshape(x, (-1, *ops.shape(x)[2:])), rows, axis=0), structure
    )


def pick(x, places):
    """From every row of (N, M) one entry: (N,)."""
    return select(x, places[:, None])[:, 0]


def join(first, second):
    """(B, M, …) and (B, M′, …) → (B, M + M′, …)."""
    return keras.tree.map_structure(lambda a, b: ops.concatenate([a, b], axis=1), first, second)


def freeze(is_done, old, new):
    """The rows of `old` where `is_done` (B,), those of `new` elsewhere."""

    def choose(old, new):
        return ops.where(ops.reshape(is_done, (-1, *[1] * (len(old.shape) - 1))), old, new)

    return keras.tree.map_structure(choose, old, new)


def write(tokens, new, position):
    """Tokens (…, L) with `new` (…) at a position, a scalar."""
    here = ops.arange(ops.shape(tokens)[-1], dtype="int32") == position
    return ops.where(here, new[..., None], tokens)
