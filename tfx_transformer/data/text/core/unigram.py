"""Segmentation by a unigram model: the pieces with the highest sum of scores (Viterbi).

Exactly as SentencePiece computes it, float32 rounding and ties included.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.core.flat import SEPARATOR, longest_row, reached, row_ids

UNKNOWN_PENALTY = 10.0  # the score of an unknown character is this much below the lowest
CODE_BITS = 21  # of a code point


class Unigram(tf.Module):
    """Code points to pieces.

    Args:
        pieces: the V pieces; None is not to be found in a text.
        scores: (V) log-probabilities.
        unk_id: of a character that is no piece.
    """

    def __init__(self, pieces: Sequence[str | None], scores: Sequence[float], unk_id: int):
        super().__init__(name="unigram")
        self.unk_id = unk_id
        keys, ids = build_trie(pieces)
        self._no_piece = len(pieces)
        self._next = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(keys, tf.int64), tf.range(1, len(keys) + 1, dtype=tf.int64)
            ),
            default_value=-1,
        )
        self._ids = tf.constant(ids, tf.int32)  # of the piece that each node of the trie ends
        values = np.array(scores, np.float32)
        known = [i for i, piece in enumerate(pieces) if piece is not None]
        values[unk_id] = values[known].min() - np.float32(UNKNOWN_PENALTY)
        self._scores = tf.constant([*values, -np.inf], tf.float32)  # the last for no piece

    def __call__(self, codes) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Code points (P) with separators → start, length and id of each piece (N)."""
        ids = self._match(codes)  # (M, P)
        is_unknown = (codes != SEPARATOR) & (ids[0] == self._no_piece)
        ids = tf.concat([tf.where(is_unknown, self.unk_id, ids[:1]), ids[1:]], axis=0)
        scores = tf.transpose(tf.gather(self._scores, ids))  # (P, M)
        best = self._best_scores(codes, scores)
        length = self._last_lengths(is_unknown, scores, best)
        positions = tf.range(tf.size(codes))
        # from the end of each text, the separator after it, back to its beginning
        is_begin = tf.concat([[True], codes[:-1] == SEPARATOR], axis=0)
        jump = tf.where(is_begin, positions, positions - length)
        is_end = reached(codes == SEPARATOR, jump, longest_row(codes)) & ~is_begin
        length = tf.boolean_mask(length, is_end)
        start = tf.boolean_mask(positions, is_end) - length
        return start, length, tf.gather_nd(ids, tf.stack([length - 1, start], axis=1))

    def _match(self, codes):
        """Ids (M, P) of the pieces of 1 … M characters that begin at each position, or V."""
        codes = tf.cast(codes, tf.int64)

        def step(depth, positions, nodes, found):
            code = tf.gather(codes, positions + tf.cast(depth, tf.int64))
            nodes = self._next.lookup(nodes * 2**CODE_BITS + code)
            is_node = (nodes > 0) & (code != SEPARATOR)
            positions, nodes = tf.boolean_mask(positions, is_node), tf.boolean_mask(nodes, is_node)
            ids = tf.fill(tf.shape(codes), self._no_piece)
            ids = tf.tensor_scatter_nd_update(ids, positions[:, None], tf.gather(self._ids, nodes))
            return depth + 1, positions, nodes, found.write(depth, ids)

        positions = tf.range(tf.size(codes, tf.int64))
        found = tf.TensorArray(tf.int32, 1, dynamic_size=True, element_shape=[None])
        *_, found = tf.while_loop(
            lambda depth, positions, *_: tf.size(positions) > 0,
            step,
            (0, positions, tf.zeros_like(positions), found),
        )
        return found.stack()

    def _best_scores(self, codes, scores):
        """The score (P) of the best path from the beginning of a text to before each position."""
        separators = tf.cast(tf.where(codes == SEPARATOR)[:, 0], tf.int32)
        begin, end = separators[:-1] + 1, separators[1:]
        window = tf.fill([tf.size(begin), tf.shape(scores)[1]], -np.inf)  # ends 1 … M from here

        def step(index, best, window, all_best):
            score = tf.gather(scores, tf.minimum(begin + index, end))  # (B, M)
            window = tf.maximum(window, best[:, None] + score)
            best, rest = window[:, 0], window[:, 1:]
            window = tf.pad(rest, [[0, 0], [0, 1]], constant_values=-np.inf)
            return index + 1, best, window, all_best.write(index, best)

        length = tf.maximum(longest_row(codes), 1)  # an empty array cannot be stacked
        all_best = tf.TensorArray(tf.float32, length, element_shape=[None])
        *_, all_best = tf.while_loop(
            lambda index, *_: index < length,
            step,
            (0, tf.zeros([tf.size(begin)]), window, all_best),
        )
        rows, position = row_ids(codes), tf.range(tf.size(codes))
        # before a separator is the end of the text before it
        rows = tf.where(codes == SEPARATOR, rows - 1, rows)
        index = position - tf.gather(separators, tf.maximum(rows, 0)) - 2
        return tf.gather_nd(
            tf.pad(all_best.stack(), [[1, 0], [0, 1]]),
            tf.stack([tf.maximum(index + 1, 0), tf.maximum(rows, 0)], axis=1),
        )

    def _last_lengths(self, is_unknown, scores, best):
        """The length (P) of the last piece of the best path to before each position.

        SentencePiece tries the pieces from the longest to the shortest, and takes one if its sum in
        float64 is above the best so far, which is rounded to float32.
        """
        longest = tf.shape(scores)[1]
        length = tf.range(1, longest + 1)
        start = tf.maximum(tf.range(tf.size(best))[:, None] - length, 0)  # (P, M)
        where = tf.stack([start, tf.broadcast_to(length - 1, tf.shape(start))], axis=-1)
        score, before = tf.gather_nd(scores, where), tf.gather(best, start)
        is_best = before + score == best[:, None]
        total = tf.cast(before, tf.float64) + tf.cast(score, tf.float64)
        is_above = total > tf.cast(best, tf.float64)[:, None]
        is_above &= ~(tf.gather(is_unknown, start) & (length == 1))  # their sum is rounded
        from_above = tf.argmax(is_above, axis=1, output_type=tf.int32) + 1  # the shortest
        from_best = longest - tf.argmax(is_best[:, ::-1], axis=1, output_type=tf.int32)
        return tf.where(tf.reduce_any(is_above, axis=1), from_above, from_best)


def build_trie(pieces: Sequence[str | None]) -> tuple[list[int], list[int]]:
    """V pieces → keys (node, code point) of the nodes 1 …, and the piece that each node ends, or V.

    Node 0 is the root.
    """
    nodes: dict[int, int] = {}
    ids: dict[int, int] = {}
    for index, piece in enumerate(pieces):
        node = 0
        for character in piece or "":
            key = node * 2**CODE_BITS + ord(character)
            node = nodes.setdefault(key, len(nodes) + 1)
        if piece:
            ids[node] = index
    return list(nodes), [ids.get(node, len(pieces)) for node in range(len(nodes) + 1)]
