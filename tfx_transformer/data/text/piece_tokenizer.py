"""Tokenizer with a separate vocabulary: a list of pieces beside a SentencePiece model (Marian),
byte-pair merges (GPT-2) or neither (CTranslate2)."""

from collections.abc import Sequence

import tensorflow as tf

from tfx_transformer.checks import check_choice
from tfx_transformer.data.text.core.byte_level import ByteLevel
from tfx_transformer.data.text.core.sentencepiece import CoreSentencePiece
from tfx_transformer.data.text.tokenizer import (
    END,
    PAD,
    REPLACEMENT,
    START,
    UNK,
    SentencePieceModel,
    decode_rows,
)

SEPARATORS = {"spaces": " ", "characters": ""}
CODE = "(?s)^(>>.*?<<)"  # of the target language, at the beginning of a text


class PieceTokenizer(tf.Module):
    """Strings to ids and back in the graph, as `Tokenizer`, with a list of pieces.

    Args:
        pieces: the V pieces, the first four for PAD, START, END and UNK.
        splitter: how a text is split into pieces: the content of a SentencePiece model, a
            `ByteLevel`, "spaces" or "characters".
        language_codes: whether a text may begin with a code such as >>fra<<, which is a piece.
        core: whether to use ops of TensorFlow alone, as in `Tokenizer`.
    """

    start_id, end_id, unk_id = START, END, UNK

    def __init__(
        self,
        pieces: Sequence[str],
        splitter: bytes | str | ByteLevel,
        language_codes: bool = False,
        core: bool = False,
    ):
        super().__init__(name="piece_tokenizer")
        self.pieces, self.splitter, self.language_codes = tuple(pieces), splitter, language_codes
        self.vocab_size = len(self.pieces)
        self.model = splitter if isinstance(splitter, bytes) else None
        if len(set(self.pieces[END:])) < len(self.pieces) - END:
            repeated = next(p for p in self.pieces[END:] if self.pieces[END:].count(p) > 1)
            raise ValueError(f"pieces must be unique; got {repeated!r} more than once")
        if isinstance(splitter, bytes):
            self._graph = CoreSentencePiece(splitter) if core else SentencePieceModel(splitter)
        elif isinstance(splitter, ByteLevel):
            self._graph = splitter
        else:
            check_choice(*SEPARATORS, splitter=splitter)
        keys, ids = tf.constant(self.pieces[END:]), tf.range(END, self.vocab_size)
        self._ids = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, ids), default_value=UNK
        )
        self._pieces = tf.constant(self.pieces)

    def with_core_ops(self) -> "PieceTokenizer":
        """The same tokenizer without ops of tensorflow-text."""
        return PieceTokenizer(self.pieces, self.splitter, self.language_codes, core=True)

    def encode(self, strings) -> tf.RaggedTensor:
        """Strings (B) → ids (B, ragged) int32, without START and END."""
        strings = tf.convert_to_tensor(strings, tf.string)
        if not self.language_codes:
            return self._ids[self._split(strings)]
        has_code = tf.strings.regex_full_match(strings, f"{CODE}.*$")
        code = tf.strings.regex_replace(strings, f"{CODE}.*$", r"\1")
        code = tf.ragged.boolean_mask(code[:, None], has_code[:, None])  # (B, 0 or 1)
        pieces = self._split(tf.strings.regex_replace(strings, CODE, ""))
        return self._ids[tf.concat([code, pieces], axis=1)]

    def decode(self, ids) -> tf.Tensor:
        """Ids (…, T), dense or ragged → strings (…). Stops at END; drops special ids."""

        def decode(rows, is_before_end):
            pieces = tf.gather(self._pieces, rows)
            return self._join(tf.ragged.boolean_mask(pieces, is_before_end & (rows > UNK)))

        return decode_rows(ids, decode)

    def to_pieces(self, ids) -> tf.Tensor:
        """Ids of any shape → their pieces, strings of that shape; "" for PAD."""
        return tf.where(ids == PAD, "", tf.gather(self._pieces, ids))

    def _split(self, strings) -> tf.RaggedTensor:
        """(B) → pieces (B, ragged)."""
        if self.splitter == "spaces":
            return tf.strings.split(strings)
        if self.splitter == "characters":
            return tf.strings.unicode_split(strings, "UTF-8")
        return self._graph.tokenize(strings, tf.string)

    def _join(self, pieces) -> tf.Tensor:
        """(B, ragged) → (B)."""
        if isinstance(self.splitter, ByteLevel):
            return self._graph.detokenize(pieces)
        if self.model is None:
            separator = SEPARATORS[str(self.splitter)]
            strings = tf.strings.reduce_join(pieces, axis=-1, separator=separator)
            return tf.strings.regex_replace(strings, REPLACEMENT, "")
        strings = self._graph.detokenize(pieces)
        return tf.strings.strip(tf.strings.regex_replace(strings, "▁", " "))


def start_rows(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Ids (B, ragged) with START, but an empty row stays empty."""
    is_text = ids.row_lengths() > 0
    start = tf.ragged.boolean_mask(tf.fill([ids.nrows(), 1], START), is_text[:, None])
    return tf.concat([start, ids], axis=1)


def end_empty_rows(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    """Sources (B, ragged) of a model that was trained without END: only an empty one is END."""
    is_empty = ids.row_lengths() == 0
    end = tf.ragged.boolean_mask(tf.fill([ids.nrows(), 1], END), is_empty[:, None])  # (B, 0 or 1)
    return tf.concat([ids, end], axis=1)
