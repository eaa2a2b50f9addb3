"""Translator: a model, its tokenizers and a decoder as one function from strings to strings."""

from dataclasses import dataclass, field

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.text.pair_batches import append_end
from tfx_transformer.data.text.tokenizer import END, PAD
from tfx_transformer.pipelines.base import GeneratedText, Pipeline, decode_pieces
from tfx_transformer.pipelines.decode import (
    add_missing_column,
    cross_attention,
    decode,
    known_ids,
    make_decoder,
    mean_attention,
    text_outputs,
)
from tfx_transformer.runtime import graph

MIN_XLA_LENGTH = 16  # shortest source length that XLA compiles for


@dataclass(frozen=True)
class Translation(GeneratedText):
    """A translated sentence."""

    source_pieces: list[str]  # S subwords of the source
    # of the signature "explain" only: (T, S), attention from each target to each source subword,
    # the mean of (blocks, heads, T, S)
    alignment: np.ndarray | None = field(default=None, kw_only=True)
    attention: np.ndarray | None = field(default=None, kw_only=True)

    @classmethod
    def fields(cls, outputs, row):
        fields = super().fields(outputs, row)
        source = decode_pieces(outputs["source_pieces"][row])
        target = len(fields["pieces"])
        fields |= {"source_pieces": source}
        for name in ("alignment", "attention"):
            if name in outputs:
                fields[name] = outputs[name][row, ..., :target, : len(source)]
        return fields


class Translator(Pipeline):
    """Translates strings: `translator("Good morning.")` or `translator(["One.", "Two."])`.

    Args:
        model: has `initial_state`, `step` and `attention_maps`.
        source_tokenizer, target_tokenizer: may be the same one.
        decoder: a name in DECODERS, or a dict of its options.
        max_length: maximum length of a translation in tokens, END included; longer sources are
            truncated.
        jit_compile: whether XLA compiles decoding: faster, but the first call of each shape takes
            seconds. Shapes are rounded up to powers of two, so that there are few.
    """

    kind = "translator"
    result = Translation
    add_source_end = True  # whether `encode` adds END to each source

    def __init__(
        self,
        model,
        source_tokenizer,
        target_tokenizer,
        decoder="beam",
        max_length=128,
        jit_compile=False,
    ):
        super().__init__()
        check_positive(max_length=max_length)
        self.model = model
        self.source_tokenizer, self.target_tokenizer = source_tokenizer, target_tokenizer
        self.decoder, self.seeds = make_decoder(decoder)
        self.max_length, self.jit_compile = max_length, jit_compile
        ids = tf.TensorSpec([None, None], tf.int32, name="source")
        text = tf.TensorSpec([None], tf.string, name="text")
        length = tf.TensorSpec([], tf.int32, name="max_length")
        tokens = tf.TensorSpec([None, None], tf.int32, name="tokens")
        self._decode = graph(self._decode_ids, ids, length, jit_compile=jit_compile)
        self.attend = graph(self._attend, ids, tokens)
        self.predict_limited = graph(self._translate, text, length)
        self.predict_ids = graph(
            lambda source: self._decode_padded(known_ids(source, source_tokenizer), max_length), ids
        )
        self.predict = graph(lambda text: self.predict_limited(text, max_length), text)
        self.explain = graph(self._explain, text)
        self.split = graph(self._split, text)

    def signatures(self):
        signatures = {
            "serving_default": self.predict,
            "limited": self.predict_limited,  # takes a smaller max_length too
            "ids": self.predict_ids,  # ids outside of the vocabulary are unknown tokens
            "pieces": self.split,  # only the subwords of the source
        }
        has_attention = self.attend.get_concrete_function().structured_outputs.shape[1] > 0
        return signatures | ({"explain": self.explain} if has_attention else {})

    def encode(self, text):
        """Strings (B,) → source ids (B, S) with END, padded."""
        return self.read(text)[0]

    def read(self, text):
        """Strings (B,) → source ids (B, S) with END, padded, and which were truncated (B,)."""
        ids, length = self.source_tokenizer.encode(text), self.max_length - self.add_source_end
        source = self.end_rows(ids[:, :length]).to_tensor(PAD)
        return add_missing_column(source), ids.row_lengths() > length

    def end_rows(self, ids):
        """Source ids (B, ragged) with END."""
        return append_end(ids)

    def _split(self, text):
        """Strings (B,) → the subwords of the source (B, S), and which were truncated (B,)."""
        source, truncated = self.read(text)
        pieces = self.source_tokenizer.to_pieces(source)
        return {"source_pieces": pieces, "truncated": truncated}

    def _decode_ids(self, source, max_length):
        """Source ids (B, S) with END, padded → tokens (B, n_best, T), score, length (B, n_best)."""
        source = add_missing_column(source)
        # translations longer than 2 S + 10 tokens are stopped: they only repeat themselves
        length = tf.reduce_sum(tf.cast(source != PAD, tf.int32), axis=1)
        longest = tf.minimum(2 * tf.shape(source)[1] + 10, self.max_length)
        limit = tf.minimum(2 * length + 10, max_length)
        batch_size = tf.shape(source)[0]
        inputs, compact = {"source": source}, not self.jit_compile
        return decode(self.model, self.decoder, inputs, batch_size, longest, limit, compact=compact)

    def _decode_padded(self, source, max_length):
        """As `_decode_ids`; for XLA with rows and length padded to powers of two."""
        if not self.jit_compile:
            return self._decode(source, max_length)
        rows, length = tf.unstack(tf.shape(source))
        padding = [power_of_two(rows) - rows, power_of_two(length, MIN_XLA_LENGTH) - length]
        source = tf.pad(source, [[0, padding[0]], [0, padding[1]]], constant_values=PAD)
        return {name: value[:rows] for name, value in self._decode(source, max_length).items()}

    def _translate(self, text, max_length):
        """Strings (B,) → texts, scores and subwords."""
        return self._translate_source(*self.read(text), max_length)

    def _translate_source(self, source, truncated, max_length):
        decoded = self._decode_padded(source, max_length)
        longest = tf.maximum(1, tf.reduce_max(decoded["length"]))  # at least 1, of no rows too
        tokens = decoded["tokens"][:, :, :longest]
        # (B, 1); an empty text has an empty translation
        is_empty = tf.reduce_any(source[:, :1] == END, axis=1, keepdims=True)
        n_best = tf.where(is_empty, "", self.target_tokenizer.decode(tokens))
        score = tf.where(is_empty, 0.0, decoded["score"])
        return text_outputs(self.target_tokenizer, tokens[:, 0], n_best, score) | {
            "source_pieces": self.source_tokenizer.to_pieces(source),
            "truncated": truncated,
        }

    def _explain(self, text):
        """Strings (B,) → the outputs of `predict`, the alignment and all attention."""
        source, truncated = self.read(text)
        outputs = self._translate_source(source, truncated, self.max_length)
        attention = self.attend(source, outputs["tokens"])  # (B, blocks, heads, T, S)
        return outputs | {"alignment": mean_attention(attention), "attention": attention}

    def _attend(self, source, tokens):
        """Attention from each token (B, T) to each source token (B, S): (B, blocks, H, T, S)."""
        return cross_attention(self.model, {"source": source}, tokens, tf.shape(source)[1])


def power_of_two(size, minimum=1):
    """The smallest power of two that is at least `size`, a scalar, and at least `minimum`."""
    powers = minimum * 2 ** tf.range(31 - minimum.bit_length())
    return tf.reduce_min(tf.where(powers >= size, powers, powers.dtype.max))
