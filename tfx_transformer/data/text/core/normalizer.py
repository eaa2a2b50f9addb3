"""The normalizer of SentencePiece: replacement rules, then the rules of white space.

The rules are a double-array trie over bytes (Darts) in the model file. It becomes a table with a
row for each node, and is walked from all positions at once.
"""

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

SPACE, MARK, REPLACEMENT = 0x20, 0x2581, 0xFFFD  # the mark "▁" stands for a space
NO_LABEL = -2  # of a node that no byte leads to


class Normalizer(tf.Module):
    """Strings to normalized code points, as SentencePiece with `remove_extra_whitespaces` does.

    Args:
        charsmap: the compiled rules of a SentencePiece model; empty for none.
        add_dummy_prefix: whether a text begins with a mark.
    """

    def __init__(self, charsmap: bytes, add_dummy_prefix: bool = True):
        super().__init__(name="normalizer")
        self.add_dummy_prefix, self.has_rules = add_dummy_prefix, bool(charsmap)
        nodes, codes, lengths = read_rules(charsmap) if charsmap else (np.zeros((1, 3)), [], [])
        self._nodes = tf.constant(nodes, tf.int32)  # (nodes, 3): of its children, label, rule
        self._codes = tf.constant(codes, tf.int32)  # of all replacements
        self._lengths = tf.constant(lengths, tf.int32)  # of the replacement that begins here

    def __call__(self, strings) -> tf.Tensor:
        """Strings (B) → code points (P) with separators; spaces are marks."""
        values = to_bytes(strings)
        code, size = decode_utf8(values)
        count = tf.size(values)
        length, rule = self._match(values)
        jump = tf.range(count) + tf.where(rule >= 0, length, tf.maximum(size, 1))
        jump = tf.where(values == SEPARATOR, tf.range(count), jump)
        is_first = tf.concat([[True], values[:-1] == SEPARATOR], axis=0)
        is_used = reached(is_first, jump, longest_row(values)) | (values == SEPARATOR)

        # what stands for each position: begin and length in the following pool of code points
        extra = count + tf.size(self._codes)
        pool = tf.concat([code, self._codes, [REPLACEMENT, SEPARATOR, SPACE]], axis=0)
        begin = tf.where(size > 0, tf.range(count), extra)
        begin = tf.where(rule >= 0, count + rule, begin)
        length = tf.ones_like(code)
        if self.has_rules:
            length = tf.where(rule >= 0, tf.gather(self._lengths, tf.maximum(rule, 0)), length)
        if self.add_dummy_prefix:  # unless the text is empty
            is_before_text = tf.concat([values[1:] != SEPARATOR, [False]], axis=0)
            is_prefixed = (values == SEPARATOR) & is_before_text
            begin, length = (
                tf.where(is_prefixed, extra + 1, begin),
                tf.where(is_prefixed, 2, length),
            )
        length = tf.where(is_used, length, 0)
        begin = tf.repeat(begin - tf.cumsum(length, exclusive=True), length)
        return self._strip(tf.gather(pool, begin + tf.range(tf.size(begin))))

    def _match(self, values):
        """The longest rule that begins at each byte (P): its length, and its index or -1."""
        none = tf.fill(tf.shape(values), -1)
        if not self.has_rules:
            return none, none

        def step(depth, positions, parents, lengths, rules):
            byte = tf.gather(values, positions + depth)
            children = tf.bitwise.bitwise_xor(parents, byte & 0xFF)
            nodes = tf.gather(self._nodes, children)
            is_child = nodes[:, 1] == byte
            positions, nodes = (
                tf.boolean_mask(positions, is_child),
                tf.boolean_mask(nodes, is_child),
            )
            depth, is_rule = depth + 1, nodes[:, 2] >= 0
            where = tf.boolean_mask(positions, is_rule)[:, None]
            lengths = tf.tensor_scatter_nd_update(
                lengths, where, tf.fill(tf.shape(where)[:1], depth)
            )
            rules = tf.tensor_scatter_nd_update(rules, where, tf.boolean_mask(nodes[:, 2], is_rule))
            return depth, positions, nodes[:, 0], lengths, rules

        positions = tf.range(tf.size(values))
        parents = tf.fill(tf.shape(values), self._nodes[0, 0])
        *_, lengths, rules = tf.while_loop(
            lambda depth, positions, *_: tf.size(positions) > 0,
            step,
            (0, positions, parents, none, none),
        )
        return lengths, rules

    def _strip(self, codes):
        """Code points (P) with one mark for several spaces, and none at the end of a text."""
        before = tf.concat([[SEPARATOR], codes[:-1]], axis=0)
        is_extra = before == SPACE
        if not self.add_dummy_prefix:
            is_extra |= before == SEPARATOR
        codes = tf.boolean_mask(codes, (codes != SPACE) | ~is_extra)
        codes = tf.where(codes == SPACE, MARK, codes)
        rows, positions = row_ids(codes), tf.range(tf.size(codes))
        is_text = (codes != MARK) & (codes != SEPARATOR)
        last = tf.math.unsorted_segment_max(
            tf.where(is_text, positions, -1), rows, tf.reduce_max(rows) + 1
        )
        return tf.boolean_mask(codes, (codes == SEPARATOR) | (positions <= tf.gather(last, rows)))


def read_rules(charsmap: bytes):
    """Compiled rules → nodes (N, 3), the code points of all replacements, and their lengths.

    A node is the XOR of its children's indices with their bytes, the byte that leads to it, and the
    replacement of the bytes that lead to it, or -1. The bits are those of darts-clone.
    """
    size = int.from_bytes(charsmap[:4], "little")
    if size % 4 or not 4 <= size <= len(charsmap) - 5 or charsmap[-1]:
        raise ValueError("the normalization rules of the SentencePiece model are broken")
    units = np.frombuffer(charsmap, "<u4", size // 4, 4).astype(np.int64)
    text = np.frombuffer(charsmap, np.uint8, offset=4 + size)
    is_value = units >> 31 == 1
    children = np.arange(len(units)) ^ (units >> 10 << (units >> 6 & 8))
    has_value = (units >> 8 & 1 == 1) & ~is_value
    value = np.where(has_value, units[np.where(has_value, children, 0)] & 0x7FFFFFFF, 0)
    code_of_byte = np.cumsum(text & 0xC0 != 0x80) - 1
    rule = np.where(has_value, code_of_byte[value], -1)
    label = np.where(is_value, NO_LABEL, units & 0xFF)
    nodes = np.stack([np.where(is_value, 0, children), label, rule], axis=1)
    missing = (nodes[:, 0].max() | 0xFF) + 1 - len(nodes)  # every child can be looked up
    nodes = np.pad(nodes, ((0, max(missing, 0)), (0, 0)), constant_values=NO_LABEL)

    codes = np.array([ord(character) for character in text.tobytes().decode()])
    (ends,) = np.nonzero(codes == 0)
    lengths = ends[np.searchsorted(ends, np.arange(len(codes)))] - np.arange(len(codes))
    if np.any((codes[1:] == SPACE) & (codes[:-1] == SPACE)):
        raise ValueError("a normalization rule of the SentencePiece model has a double space")
    return nodes, codes, lengths
