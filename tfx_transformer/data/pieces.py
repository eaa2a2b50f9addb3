"""Text ↔ the ids of a vocabulary that is a list of pieces, as other libraries keep it beside
SentencePiece (Marian) or without it (CTranslate2)."""

from collections.abc import Sequence

import tensorflow as tf

from tfx_transformer.checks import check_choice
from tfx_transformer.data.tokenizer import END, PAD, UNK, _Model, _ops

SEPARATORS = {"spaces": " ", "characters": ""}
CODE = "(?s)^(>>.*?<<)"  # of the language to translate into, at the beginning of a text


class PieceTokenizer(tf.Module):
    """Strings to ids and back in the graph, as `Tokenizer`, by a list of pieces.

    Args:
        pieces: the V pieces, the first four for PAD, START, END and UNK.
        cut: what a text is cut by: the content of a SentencePiece model, "spaces" or "characters".
        codes: whether a text may begin with a code such as >>fra<<, which is a piece.
    """

    def __init__(self, pieces: Sequence[str], cut: bytes | str, codes: bool = False):
        super().__init__(name="piece_tokenizer")
        self.pieces, self.cut, self.codes = tuple(pieces), cut, codes
        self.model = cut if isinstance(cut, bytes) else None
        if len(set(self.pieces[END:])) < len(self.pieces) - END:
            twice = next(p for p in self.pieces[END:] if self.pieces[END:].count(p) > 1)
            raise ValueError(f"pieces must be there once; got {twice!r} more often")
        if isinstance(cut, bytes):
            self._graph = _Model(cut)
        else:
            check_choice(*SEPARATORS, cut=cut)
        keys, ids = tf.constant(self.pieces[END:]), tf.range(END, self.vocab_size)
        self._ids = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, ids), default_value=UNK
        )
        self._pieces = tf.constant(self.pieces)

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.pieces)

    def encode(self, strings) -> tf.RaggedTensor:
        """Strings (B) → ids (B, ragged) int32, without START and END."""
        strings = tf.convert_to_tensor(strings, tf.string)
        if not self.codes:
            return self._ids[self._cut(strings)]
        has_code = tf.strings.regex_full_match(strings, f"{CODE}.*$")
        code = tf.strings.regex_replace(strings, f"{CODE}.*$", r"\1")
        code = tf.ragged.boolean_mask(code[:, None], has_code[:, None])  # (B, 0 or 1)
        pieces = self._cut(tf.strings.regex_replace(strings, CODE, ""))
        return self._ids[tf.concat([code, pieces], axis=1)]

    def decode(self, ids) -> tf.Tensor:
        """Ids (…, T), dense or ragged → strings (…). Reads up to END; drops what is special."""
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(PAD)
        ids = tf.cast(ids, tf.int32)
        shape = tf.shape(ids)
        rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])
        unended = tf.cumsum(tf.cast(rows == END, tf.int32), axis=1) == 0
        pieces = tf.ragged.boolean_mask(tf.gather(self._pieces, rows), unended & (rows > UNK))
        return tf.reshape(self._join(pieces), shape[:-1])

    def to_pieces(self, ids) -> tf.Tensor:
        """Ids of any shape → their pieces, strings of that shape; "" for PAD."""
        return tf.where(ids == PAD, "", tf.gather(self._pieces, ids))

    def _cut(self, strings) -> tf.RaggedTensor:
        """(B) → pieces (B, ragged)."""
        if self.cut == "spaces":
            return tf.strings.split(strings)
        if self.cut == "characters":
            return tf.strings.unicode_split(strings, "UTF-8")
        values, row_splits = _ops.sentencepiece_tokenize_op(
            self._graph.resource_handle,
            strings,
            nbest_size=1,
            alpha=1.0,
            add_bos=False,
            add_eos=False,
            reverse=False,
            out_type=tf.string,
        )
        return tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)

    def _join(self, pieces) -> tf.Tensor:
        """(B, ragged) → (B)."""
        if self.model is None:
            separator = SEPARATORS[str(self.cut)]
            return tf.strings.reduce_join(pieces, axis=-1, separator=separator)
        strings = _ops.sentencepiece_detokenize_op(
            self._graph.resource_handle,
            pieces.values,
            pieces.row_splits,
            add_bos=False,
            add_eos=False,
            reverse=False,
        )
        return tf.strings.strip(tf.strings.regex_replace(strings, "▁", " "))


def encode_bare(tokenizer: PieceTokenizer, strings, max_length: int) -> tf.Tensor:
    """Strings (B) → source ids (B, S) of a model that was trained without END behind them.

    An empty text is END alone: no row may be without any token.
    """
    ids = tokenizer.encode(strings)[:, :max_length]
    is_empty = ids.row_lengths() == 0
    end = tf.ragged.boolean_mask(tf.fill([ids.nrows(), 1], END), is_empty[:, None])  # (B, 0 or 1)
    return tf.concat([ids, end], axis=1).to_tensor(PAD)
