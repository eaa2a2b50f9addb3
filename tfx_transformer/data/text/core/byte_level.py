"""Byte-level byte-pair encoding, as of GPT-2 and BART, as ops of TensorFlow.

A text is split into words by GPT-2's regular expression, each word into its bytes, and their pairs
are merged. In pieces every byte is a visible character: "Ġ" is a space.
"""

import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.core.bpe import PAD, hash_table, merge_pairs
from tfx_transformer.data.text.core.flat import SEPARATOR, row_ids, to_bytes

SPACES = r"\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}"
# of a run of spaces before a word, the last belongs to the word
LAST_SPACE = rf"([{SPACES}])([^{SPACES}])"
WORD = (
    r"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
    rf"| ?[^{SPACES}\p{{L}}\p{{N}}]+|[{SPACES}]+)"
)
# bytes that UTF-8 does not have: the beginning of a word, and one for each special token
BEGIN, FIRST_SPECIAL = 0xFF, 0xF5
MAX_SPECIAL = BEGIN - FIRST_SPECIAL


class ByteLevel(tf.Module):
    """Strings to pieces and back, exactly as GPT-2's own tokenizer.

    Args:
        merges: pairs of pieces, as "left right"; the first are merged first.
        special: tokens that are not split, 10 at most.
    """

    def __init__(self, merges: Sequence[str], special: Sequence[str] = ()):
        super().__init__(name="byte_level")
        if len(special) > MAX_SPECIAL:
            raise ValueError(f"special must be {MAX_SPECIAL} tokens at most; got {len(special)}")
        self.special = tuple(special)
        pieces = byte_alphabet()
        bytes_of = {character: bytes([value]) for value, character in enumerate(pieces)}
        pieces[FIRST_SPECIAL : FIRST_SPECIAL + len(special)] = special
        symbols = {piece: symbol for symbol, piece in enumerate(pieces)}
        pairs: dict[int, int] = {}
        results: list[int] = []
        for rule in merges:
            if rule.startswith("#version"):
                continue
            left, _, right = rule.partition(" ")
            for piece in (left, right, left + right):
                symbols.setdefault(piece, len(symbols))
            pairs.setdefault(symbols[left] * 2**32 + symbols[right], len(results))
            results.append(symbols[left + right])
        self._rules = hash_table(pairs, len(results))
        self._results = tf.constant([*results, PAD], tf.int64)  # the last for no rule
        self._scores = tf.constant([*-np.arange(len(results)), -np.inf], tf.float32)
        self._pieces = tf.constant(list(symbols))
        lengths = [1 if symbol < 256 else len(piece) for piece, symbol in symbols.items()]
        self._lengths = tf.constant(lengths, tf.int32)
        self._bytes = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(
                tf.constant(list(bytes_of)), tf.constant(list(bytes_of.values()))
            ),
            default_value="",
        )

    def tokenize(self, strings, out_type=tf.string) -> tf.RaggedTensor:
        """Strings (B) → pieces (B, ragged)."""
        codes = to_bytes(self._mark_words(tf.convert_to_tensor(strings, tf.string)))
        is_begin = (codes == SEPARATOR) | (codes == BEGIN)
        rows = tf.boolean_mask(tf.cumsum(tf.cast(is_begin, tf.int32)) - 1, ~is_begin)
        rows = tf.unique(rows).idx  # without words of no bytes
        symbols = tf.cast(tf.boolean_mask(codes, ~is_begin), tf.int64)
        symbols = tf.RaggedTensor.from_value_rowids(symbols, rows, validate=False)
        symbols = merge_pairs(symbols.to_tensor(PAD), self._rules, self._scores, self._results)
        symbols = tf.boolean_mask(symbols, symbols != PAD)
        start = tf.cumsum(tf.gather(self._lengths, symbols), exclusive=True)
        texts = tf.gather(tf.boolean_mask(row_ids(codes), ~is_begin), start)
        return tf.RaggedTensor.from_value_rowids(
            tf.gather(self._pieces, symbols), texts, tf.size(strings), validate=False
        ).with_row_splits_dtype(tf.int64)

    def detokenize(self, pieces: tf.RaggedTensor) -> tf.Tensor:
        """Pieces (B, ragged) → strings (B), without bytes that are no complete character."""
        characters = tf.strings.unicode_split(pieces.values, "UTF-8")
        rows = tf.gather(pieces.value_rowids(), characters.value_rowids())
        values = self._bytes[characters.values]
        strings = tf.strings.unsorted_segment_join(values, rows, pieces.nrows())
        return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="ignore")

    def _mark_words(self, strings):
        """Strings with BEGIN before each word, and special tokens as one byte each."""
        strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="replace")
        for i, token in enumerate(self.special):
            mark = bytes([BEGIN, FIRST_SPECIAL + i, BEGIN])
            strings = tf.strings.regex_replace(strings, re.escape(token), mark)
        strings = tf.strings.regex_replace(strings, LAST_SPACE, bytes([BEGIN]) + rb"\1\2")
        return tf.strings.regex_replace(strings, WORD, bytes([BEGIN]) + rb"\1")


def byte_alphabet() -> list[str]:
    """A visible character for each byte: itself in Latin-1 if it is visible, else one after it."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    visible += range(ord("®"), ord("ÿ") + 1)
    others = [value for value in range(256) if value not in visible]
    return [chr(v if v in visible else 256 + others.index(v)) for v in range(256)]
