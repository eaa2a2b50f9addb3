"""Bytes, code points and jumps against plain Python."""

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.core.flat import (
    SEPARATOR,
    decode_utf8,
    longest_row,
    reached,
    row_ids,
    to_bytes,
)


def test_the_bytes_of_all_texts_are_separated(strings):
    expected = [SEPARATOR]
    for string in strings:
        expected += [*string, SEPARATOR]
    values = to_bytes(tf.constant(strings))
    assert values.numpy().tolist() == expected
    assert longest_row(values) == max(map(len, strings))
    assert row_ids(values)[-1] == len(strings)


def test_no_texts_are_one_separator():
    values = to_bytes(tf.constant([], tf.string))
    assert values.numpy().tolist() == [SEPARATOR] and longest_row(values) == 0


def test_code_points_are_those_of_python(strings):
    values = to_bytes(tf.constant(strings))
    codes, sizes = (x.numpy() for x in decode_utf8(values))
    position, separators = 0, np.flatnonzero(values == SEPARATOR)
    assert (codes[separators] == SEPARATOR).all() and (sizes[separators] == 1).all()
    for position, value in enumerate(values.numpy()):
        if value == SEPARATOR:
            continue
        found = 0
        for size in range(1, 5):
            try:
                character = bytes(values.numpy()[position : position + size].tolist()).decode()
            except ValueError:
                continue
            found = size if len(character) == 1 else found
            break
        assert sizes[position] == found
        assert not found or codes[position] == ord(character)


def test_every_character_is_decoded():
    codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    values = tf.constant([*"".join(map(chr, codes)).encode()])
    found, sizes = decode_utf8(values)
    assert tf.boolean_mask(found, sizes > 0).numpy().tolist() == codes


def test_jumps_are_followed():
    rng = np.random.default_rng(0)
    jump = np.minimum(np.arange(200) + rng.integers(1, 5, 200), 199)
    jump[[49, 99]] = 49, 99
    expected, starts = np.zeros(200, bool), np.isin(np.arange(200), (0, 60, 100))
    for position in np.flatnonzero(starts):
        while not expected[position]:
            expected[position] = True
            position = jump[position]
    found = reached(tf.constant(starts), tf.constant(jump, tf.int32), 100)
    np.testing.assert_array_equal(found, expected)
