"""The texts of a batch as one vector of bytes or code points: a separator, a text, a separator, ….

A separator is no character, so that no match crosses from one text to the next.
"""

import tensorflow as tf

SEPARATOR = -1


def to_bytes(strings) -> tf.Tensor:
    """Strings (B) → their bytes (P) int32 with separators."""
    joined = tf.strings.reduce_join(tf.strings.join([b"\xff", strings])) + b"\xff"
    values = tf.cast(tf.io.decode_raw(joined, tf.uint8), tf.int32)
    ends = tf.cumsum(tf.strings.length(strings) + 1)
    separators = tf.concat([[0], ends], axis=0)[:, None]
    return tf.tensor_scatter_nd_update(values, separators, tf.fill(tf.shape(ends) + 1, SEPARATOR))


def decode_utf8(values) -> tuple[tf.Tensor, tf.Tensor]:
    """Bytes (P) → the code point that begins at each, and its size in bytes; 0 if none begins.

    A separator is its own code point, of size 1.
    """
    padded, count = tf.pad(values, [[0, 3]], constant_values=SEPARATOR), tf.size(values)
    first, second, third, fourth = (padded[i : i + count] for i in range(4))
    has_2 = second & 0xC0 == 0x80
    has_3 = has_2 & (third & 0xC0 == 0x80)
    has_4 = has_3 & (fourth & 0xC0 == 0x80)
    code_2 = (first & 0x1F) * 64 + (second & 0x3F)
    code_3 = (first & 0xF) * 4096 + (second & 0x3F) * 64 + (third & 0x3F)
    code_4 = ((first & 7) * 4096 + (second & 0x3F) * 64 + (third & 0x3F)) * 64 + (fourth & 0x3F)
    # neither longer than needed, nor surrogates, nor beyond Unicode
    is_2 = has_2 & (first & 0xE0 == 0xC0) & (code_2 >= 0x80)
    is_3 = has_3 & (first & 0xF0 == 0xE0) & (code_3 >= 0x800) & (code_3 // 0x800 != 0x1B)
    is_4 = has_4 & (first & 0xF8 == 0xF0) & (code_4 >= 0x10000) & (code_4 <= 0x10FFFF)
    size = tf.where(first < 0x80, 1, tf.where(is_2, 2, tf.where(is_3, 3, tf.where(is_4, 4, 0))))
    code = tf.where(is_2, code_2, tf.where(is_3, code_3, tf.where(is_4, code_4, first)))
    return code, size


def row_ids(values) -> tf.Tensor:
    """(P) → the text of each position; a separator belongs to the text after it."""
    return tf.cumsum(tf.cast(values == SEPARATOR, tf.int32)) - 1


def longest_row(values) -> tf.Tensor:
    """(P) → the length of the longest text, and 0 without texts."""
    separators = tf.where(values == SEPARATOR)[:, 0]
    return (
        tf.cast(tf.reduce_max(tf.concat([separators[1:] - separators[:-1], [1]], 0)), tf.int32) - 1
    )


def reached(is_start, jump, longest) -> tf.Tensor:
    """Which positions (P) are reached from the starts (P) by at most `longest` jumps (P).

    The jumps are doubled, so that a path of n jumps takes log n steps.
    """

    def double(count, found, jump):
        found = tf.tensor_scatter_nd_max(found, jump[:, None], found)
        return 2 * count, found, tf.gather(jump, jump)

    _, found, _ = tf.while_loop(
        lambda count, *_: count <= longest, double, (1, tf.cast(is_start, tf.int32), jump)
    )
    return found == 1
