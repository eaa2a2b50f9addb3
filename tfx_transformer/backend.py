"""Operations for which TensorFlow has one op where `keras.ops` needs several or has none.

A decoding step of a small model takes as long as its number of ops. Other backends, which compile
their loops, use the definitions in `keras.ops`.
"""

import keras
from keras import ops


def gather(x, indices, axis=0):
    """The entries of x at indices ≥ 0 along an axis; `ops.take` also allows negative ones."""
    if keras.backend.backend() != "tensorflow":
        return ops.take(x, indices, axis=axis)
    import tensorflow as tf

    return tf.gather(ops.convert_to_tensor(x), indices, axis=axis)


def gather_each(x, indices):
    """From every row of x (B, M, …) the entries at its indices (B, K): (B, K, …)."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.gather(x, indices, batch_dims=1)
    num_rows, size = ops.shape(indices)[0], x.shape[1]
    flat = ops.reshape(x, (-1, *ops.shape(x)[2:]))  # (B · M, …)
    return ops.take(flat, ops.arange(num_rows, dtype="int32")[:, None] * size + indices, axis=0)


def matmul_transposed(x, y):
    """xyᵀ of matrices in the last two axes: (…, T, K), (…, S, K) → (…, T, S)."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.matmul(x, y, transpose_b=True)
    return ops.matmul(x, ops.swapaxes(y, -1, -2))


def dropout_mask(shape, rate, seed, dtype):
    """0 at a random share `rate` of the entries, 1 / (1 - rate) at the others; only TensorFlow.

    Each entry takes 16 random bits, so the share is rounded to a multiple of 1/65536.
    """
    import tensorflow as tf

    *rest, width = shape
    dropped = min(round(rate * 2**16), 2**16 - 1)
    words = tf.random.stateless_uniform(
        [*rest, (width + 1) // 2], tf.cast(seed, tf.int64), None, None, tf.uint32
    )
    bits = tf.reshape(tf.bitcast(words, tf.uint16), [*rest, -1])[..., :width]
    kept = tf.cast(bits >= tf.constant(dropped, tf.uint16), dtype)
    return kept * tf.constant(2**16 / (2**16 - dropped), dtype)


def forget_size(x, axis):
    """x without a static size of an axis, which may then change in a loop of TensorFlow."""
    if keras.backend.backend() != "tensorflow":
        return x
    import tensorflow as tf

    shape = x.shape.as_list()
    if tf.executing_eagerly() or shape[axis] is None:
        return x
    shape[axis] = None
    return tf.compat.v1.placeholder_with_default(x, shape)
