"""Segmentation by byte-pair encoding: the best pair of neighbors is merged until there is none.

The best pair has the highest score; of equal ones it is the leftmost.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.core.flat import SEPARATOR
from tfx_transformer.data.text.core.normalizer import MARK

PAD = -1


class BytePair(tf.Module):
    """Code points to pieces.

    Symbols are the V pieces, then characters of pieces that are no piece, then any other character.

    Args:
        pieces: the V pieces; None is not to be found in a text.
        scores: (V); the higher, the earlier a pair is merged.
        unk_id: of a character that is no piece.
    """

    def __init__(self, pieces: Sequence[str | None], scores: Sequence[float], unk_id: int):
        super().__init__(name="byte_pair")
        symbols = {piece: index for index, piece in enumerate(pieces) if piece is not None}
        characters = sorted({character for piece in symbols for character in piece})
        for character in characters:
            symbols.setdefault(character, len(pieces) + len(symbols))
        other = max(symbols.values()) + 1
        pairs = {
            symbols[piece[:cut]] * 2**32 + symbols[piece[cut:]]: symbols[piece]
            for piece in symbols
            for cut in range(1, len(piece))
            if piece[:cut] in symbols and piece[cut:] in symbols
        }
        self._characters = hash_table({ord(c): symbols[c] for c in characters}, other)
        self._pairs = hash_table(pairs, len(pieces))
        ids, lengths = np.full(other + 1, unk_id), np.ones(other + 1)
        for piece, symbol in symbols.items():
            lengths[symbol] = len(piece)
            ids[symbol] = symbol if symbol < len(pieces) else unk_id
        self._ids, self._lengths = tf.constant(ids, tf.int32), tf.constant(lengths, tf.int32)
        self._scores = tf.constant([*scores, -np.inf], tf.float32)  # the last for no pair
        self._results = tf.range(len(pieces) + 1, dtype=tf.int64)  # the rule of a piece is its id
        # no pair reaches over the beginning of a word: each word is a row of its own
        self._splits_words = not any(chr(MARK) in (piece or "")[1:] for piece in pieces)

    def __call__(self, codes) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Code points (P) with separators → start, length and id of each piece (N)."""
        is_begin = codes == SEPARATOR
        if self._splits_words:
            is_begin |= codes == MARK
        is_text = codes != SEPARATOR
        rows = tf.boolean_mask(tf.cumsum(tf.cast(is_begin, tf.int32)) - 1, is_text)
        count = tf.reduce_sum(tf.cast(is_begin, tf.int32))
        symbols = self._characters.lookup(tf.cast(tf.boolean_mask(codes, is_text), tf.int64))
        symbols = tf.RaggedTensor.from_value_rowids(symbols, rows, count, validate=False)
        symbols = merge_pairs(symbols.to_tensor(PAD), self._pairs, self._scores, self._results)
        symbols = tf.boolean_mask(symbols, symbols != PAD)
        length = tf.gather(self._lengths, symbols)
        positions = tf.boolean_mask(tf.range(tf.size(codes)), is_text)
        start = tf.gather(positions, tf.cumsum(length, exclusive=True))
        return start, length, tf.gather(self._ids, symbols)


def merge_pairs(symbols, rules, scores, results):
    """Symbols (W, T) of words, padded with PAD → the same after all merges.

    Args:
        symbols: whole numbers of 64 bits.
        rules: a table from a pair, as left · 2³² + right, to the number of its rule; R for no pair.
        scores: (R + 1) of the rules.
        results: (R + 1), what a pair is merged to.
    """

    def merge(_, symbols):
        pairs = rules.lookup(symbols[:, :-1] * 2**32 + symbols[:, 1:])  # (W, T - 1)
        best = tf.argmax(tf.gather(scores, pairs), axis=1)[:, None]
        rule = tf.gather(pairs, best, batch_dims=1)  # (W, 1)
        is_pair = rule < len(scores) - 1
        column = tf.range(tf.shape(symbols, tf.int64)[1])
        left = tf.where((column == best) & is_pair, tf.gather(results, rule), symbols)
        shifted = tf.pad(symbols[:, 1:], [[0, 0], [0, 1]], constant_values=PAD)
        symbols = tf.where((column > best) & is_pair, shifted, left)
        return tf.reduce_any(is_pair), symbols

    has_pairs = tf.shape(symbols)[1] > 1
    return tf.while_loop(lambda go_on, _: go_on, merge, (has_pairs, symbols))[1]


def hash_table(items: dict[int, int], default: int) -> tf.lookup.StaticHashTable:
    keys, values = (tf.constant(list(side), tf.int64) for side in (items, items.values()))
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)
