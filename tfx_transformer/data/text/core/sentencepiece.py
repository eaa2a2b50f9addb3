"""A SentencePiece model as ops of TensorFlow, with the interface of `SentencePieceModel`."""

from typing import Any

import tensorflow as tf
from sentencepiece import sentencepiece_model_pb2

from tfx_transformer.data.text.core.bpe import BytePair
from tfx_transformer.data.text.core.flat import SEPARATOR, row_ids
from tfx_transformer.data.text.core.normalizer import Normalizer
from tfx_transformer.data.text.core.unigram import Unigram

UNIGRAM, BPE = 1, 2  # kinds of models
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6  # kinds of pieces
INVALID = b"\xff"  # is removed from a text, and separates bytes before it from those after it


class CoreSentencePiece(tf.Module):
    """Tokenizes and detokenizes exactly as SentencePiece.

    Args:
        model: the content of a `.model` file; a ValueError says what is not supported.
    """

    def __init__(self, model: bytes):
        super().__init__(name="core_sentencepiece")
        proto = sentencepiece_model_pb2.ModelProto.FromString(model)  # type: ignore[attr-defined]
        check_supported(proto)
        rules, trained = proto.normalizer_spec, proto.trainer_spec
        kinds, pieces = [p.type for p in proto.pieces], [p.piece for p in proto.pieces]
        self.unk_id = kinds.index(UNKNOWN)
        self._normalizer = Normalizer(rules.precompiled_charsmap, rules.add_dummy_prefix)
        segmenter: Any = {UNIGRAM: Unigram, BPE: BytePair}[trained.model_type]
        known = [p if kind == NORMAL else None for p, kind in zip(pieces, kinds, strict=True)]
        self._segment = segmenter(known, [piece.score for piece in proto.pieces], self.unk_id)
        self._pieces = tf.constant(pieces)
        self._ids = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(self._pieces, tf.range(len(pieces))), -1
        )
        bytes_ = {int(p[3:5], 16): i for i, p in enumerate(pieces) if kinds[i] == BYTE}
        self._byte_ids = tf.constant([bytes_[value] for value in range(256)]) if bytes_ else None

        texts = [text_of(piece, trained.unk_surface) for piece in proto.pieces]
        # at the beginning of a text, without its first space
        is_marked = [p.type == NORMAL and p.piece[:1] == "▁" for p in proto.pieces]
        first_texts = [text[mark:] for text, mark in zip(texts, is_marked, strict=True)]
        self._texts, self._first_texts = tf.constant(texts), tf.constant(first_texts)
        is_text = [bool(t) and kind != CONTROL for t, kind in zip(first_texts, kinds, strict=True)]
        self._is_text = tf.constant(is_text, tf.int32)

    def tokenize(self, strings, out_type=tf.int32) -> tf.RaggedTensor:
        """Strings (B) → ids or pieces (B, ragged)."""
        strings = tf.convert_to_tensor(strings, tf.string)
        codes = self._normalizer(strings)
        start, length, ids = self._segment(codes)
        rows, is_unknown = tf.gather(row_ids(codes), start), ids == self.unk_id
        if self._byte_ids is not None:
            ids, rows = self._to_bytes(tf.gather(codes, start), ids, rows)
        else:  # several unknown characters are one piece
            is_repeated = is_unknown[1:] & is_unknown[:-1] & (rows[1:] == rows[:-1])
            is_new = tf.concat([tf.ones_like(is_unknown[:1]), ~is_repeated], axis=0)
            length = tf.math.segment_sum(length, tf.cumsum(tf.cast(is_new, tf.int32)) - 1)
            ids, rows = tf.boolean_mask(ids, is_new), tf.boolean_mask(rows, is_new)
        values = ids
        if out_type == tf.string:
            values = tf.gather(self._pieces, ids)
            if self._byte_ids is None:
                text = tf.boolean_mask(codes, codes != SEPARATOR)
                text = tf.RaggedTensor.from_row_lengths(text, length, validate=False)
                text = tf.strings.unicode_encode(text, "UTF-8")
                values = tf.where(ids == self.unk_id, text, values)
        return tf.RaggedTensor.from_value_rowids(
            values, tf.cast(rows, tf.int64), tf.size(strings, tf.int64), validate=False
        )

    def _to_bytes(self, codes, ids, rows):
        """Ids (N) with the ids of its bytes for each unknown character, and their rows."""
        size = 1 + sum(tf.cast(codes >= first, tf.int32) for first in (0x80, 0x800, 0x10000))
        count = tf.where(ids == self.unk_id, size, 1)
        index = tf.repeat(tf.range(tf.size(ids)), count)
        place = tf.range(tf.size(index)) - tf.gather(tf.cumsum(count, exclusive=True), index)
        codes, ids, size = (tf.gather(values, index) for values in (codes, ids, size))
        value = tf.bitwise.right_shift(codes, 6 * (size - 1 - place))
        first = tf.gather([0, 0, 0xC0, 0xE0, 0xF0], size) + value
        value = tf.where(place == 0, first, 0x80 + (value & 0x3F))
        is_unknown = ids == self.unk_id
        values = tf.gather(self._byte_ids, tf.where(is_unknown, value, 0))
        return tf.where(is_unknown, values, ids), tf.gather(rows, index)

    def detokenize(self, rows: tf.RaggedTensor) -> tf.Tensor:
        """Ids or pieces (B, ragged) → strings (B), without incomplete sequences of bytes."""
        ids = rows.values
        if rows.dtype == tf.string:
            ids = tf.maximum(self._ids.lookup(rows.values), 0)
        is_text = tf.gather(self._is_text, ids)
        texts, first_texts = tf.gather(self._texts, ids), tf.gather(self._first_texts, ids)
        if rows.dtype == tf.string:  # pieces that the model does not know remain as they are
            is_known = self._ids.lookup(rows.values) >= 0
            texts = tf.where(is_known, texts, rows.values)
            first_texts = tf.where(is_known, first_texts, rows.values)
            is_text = tf.where(is_known, is_text, 1)
        before = tf.cumsum(is_text, exclusive=True)
        begin = tf.gather(tf.concat([before, [0]], axis=0), rows.row_starts())  # (B)
        row = rows.value_rowids()
        texts = tf.where(before == tf.gather(begin, row), first_texts, texts)
        strings = tf.strings.unsorted_segment_join(texts, row, rows.nrows())
        strings = tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8", errors="ignore")
        return tf.strings.regex_replace(strings, "\ufffd", "")

    def id_to_piece(self, ids) -> tf.Tensor:
        return tf.gather(self._pieces, ids)


def text_of(piece, unk_surface: str) -> bytes:
    """What a piece of a model stands for."""
    if piece.type == BYTE:
        return bytes([int(piece.piece[3:5], 16)])
    texts = {CONTROL: INVALID, UNKNOWN: unk_surface.encode()}
    return texts.get(piece.type, piece.piece.replace("▁", " ").encode())


def check_supported(proto) -> None:
    """Raises if the model has a property that these ops do not have."""
    rules, trained = proto.normalizer_spec, proto.trainer_spec
    kinds = {piece.type for piece in proto.pieces}
    reasons = {
        "is neither unigram nor BPE": trained.model_type not in (UNIGRAM, BPE),
        "has user-defined symbols": USER_DEFINED in kinds,
        "has unused pieces": UNUSED in kinds,
        "keeps double spaces": not rules.remove_extra_whitespaces,
        "does not mark spaces": not rules.escape_whitespaces,
        "marks the ends of words": trained.treat_whitespace_as_suffix,
        "has rules for decoding": bool(proto.denormalizer_spec.precompiled_charsmap),
    }
    for reason, is_true in reasons.items():
        if is_true:
            raise ValueError(f"tokenizer must be text for this SentencePiece model: it {reason}")
