"""A model, its tokenizers and a decoder as one function: strings in, strings out."""

import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.text import encode_source
from tfx_transformer.data.tokenizer import END, PAD, START
from tfx_transformer.decoding import DECODERS
from tfx_transformer.graph import graph
from tfx_transformer.lines import translate_lines
from tfx_transformer.search import search, with_own_seed

SMALLEST_LENGTH = 16  # of a source that XLA compiles for


class Translator(tf.Module):
    """Translates strings; a `tf.Module`, so that it can be exported as it stands.

    Args:
        model: anything with `initial_state`, `step` and `attention_maps`.
        source_tokenizer, target_tokenizer: of the two languages; may be the same one.
        decoder: a name in DECODERS, or a dict of its options.
        max_length: longest translation in tokens, END included; also where a source is cut.
        jit_compile: whether XLA compiles the search: quick once it has seen a shape, seconds
            before. Shapes are rounded up to powers of two, so it soon has seen them all.
    """

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
        self.decoder, self.seeds = with_own_seed(DECODERS.make(decoder))
        self.max_length, self.jit_compile = max_length, jit_compile
        ids = tf.TensorSpec([None, None], tf.int32, name="source")
        text = tf.TensorSpec([None], tf.string, name="text")
        length = tf.TensorSpec([], tf.int32, name="max_length")
        self.search = graph(self._search, ids, length, jit_compile=jit_compile)
        self.limited = graph(self._translate, text, length)
        self.decode = graph(lambda source: self._decode(source, max_length), ids)
        self.translate = graph(lambda text: self.limited(text, max_length), text)

    def __call__(self, texts, batch_size=64) -> list[str]:
        """Translates a list of any length, in batches of like length, and keeps its order."""
        return [found.text for found in translate_lines(self.translate, texts, batch_size)]

    def encode(self, text):
        """Strings (B,) → source ids (B, S) with END, padded."""
        return encode_source(self.source_tokenizer, text, self.max_length)

    def _search(self, source, max_length):
        """Source ids (B, S) with END, padded → tokens (B, n_best, T), score, length (B, n_best)."""
        # no translation is longer than this; a model that babbles is stopped
        length = tf.reduce_sum(tf.cast(source != PAD, tf.int32), axis=1)
        room = tf.minimum(2 * tf.shape(source)[1] + 10, self.max_length)
        limit = tf.minimum(2 * length + 10, max_length)
        rows = tf.shape(source)[0]
        return search(self.model, self.decoder, {"source": source}, rows, room, limit)

    def _decode(self, source, max_length):
        """As `search`; where XLA compiles it, on few shapes."""
        if not self.jit_compile:
            return self.search(source, max_length)
        rows, length = tf.unstack(tf.shape(source))
        more = [power_of_two(rows) - rows, power_of_two(length, SMALLEST_LENGTH) - length]
        source = tf.pad(source, [[0, more[0]], [0, more[1]]], constant_values=PAD)
        return {name: found[:rows] for name, found in self.search(source, max_length).items()}

    def _translate(self, text, max_length):
        """Strings (B,) → the best translation and what there is to know of it."""
        source = self.encode(text)
        found = self._decode(source, max_length)
        tokens, score = found["tokens"], found["score"]
        is_empty = source[:, 0] == END  # nothing is to be said of nothing
        n_best = tf.where(is_empty[:, None], "", self.target_tokenizer.decode(tokens))
        n_best.set_shape([None, tokens.shape[1]])
        return {
            "text": n_best[:, 0],
            "score": tf.where(is_empty, 0.0, score[:, 0]),
            "n_best": n_best,
            "n_best_score": tf.where(is_empty[:, None], 0.0, score),
            "tokens": tokens[:, 0],
            "pieces": self.target_tokenizer.to_pieces(tokens[:, 0]),
            "source_pieces": self.source_tokenizer.to_pieces(source),
            "alignment": self.align(source, tokens[:, 0]),
        }

    def align(self, source, tokens):
        """How much each token (B, T) read of each source token (B, S): (B, T, S), rows sum to 1.

        The mean over the decoder's heads and blocks; zeros for a model that has no attention.
        """
        target = tf.concat([tf.fill([tf.shape(tokens)[0], 1], START), tokens[:, :-1]], axis=1)
        maps = self.model.attention_maps({"source": source, "target": target})
        cross = [weights for name, weights in maps.items() if name.endswith("/cross")]
        if not cross:
            shape = (tf.shape(tokens)[0], tf.shape(tokens)[1], tf.shape(source)[1])
            return tf.zeros(shape)
        weights = tf.reduce_mean(tf.concat(cross, axis=1), axis=1)
        return tf.where((tokens != PAD)[:, :, None], weights, 0.0)


def power_of_two(size, least=1):
    """The least power of two that is not below `size`, a scalar, nor below `least`."""
    powers = least * 2 ** tf.range(31 - least.bit_length())
    return tf.reduce_min(tf.where(powers >= size, powers, powers.dtype.max))
