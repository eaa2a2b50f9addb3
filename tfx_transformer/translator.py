"""A model, its tokenizers and a decoder as one function: strings in, strings out."""

import keras
import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.text import encode_source
from tfx_transformer.data.tokenizer import END, PAD, START
from tfx_transformer.decoding import DECODERS


class Translator(tf.Module):
    """Translates strings; a `tf.Module`, so that it can be exported as it stands.

    Args:
        model: anything with `initial_state`, `step` and `attention_maps`.
        source_tokenizer, target_tokenizer: of the two languages; may be the same one.
        decoder: a name in DECODERS, or a dict of its options.
        max_length: longest translation in tokens, END included; also where a source is cut.
        jit_compile: whether XLA compiles decoding: quick once it has seen a shape, seconds before.
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
        self.decoder, self.max_length = DECODERS.make(decoder), max_length
        self.decode = tf.function(
            self._decode,
            input_signature=[tf.TensorSpec([None, None], tf.int32, name="source")],
            jit_compile=jit_compile,
        )
        self.translate = tf.function(
            self._translate, input_signature=[tf.TensorSpec([None], tf.string, name="text")]
        )

    def __call__(self, texts, batch_size=64) -> list[str]:
        """Translates a list of any length, in batches of like length, and keeps its order."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        results = [""] * len(texts)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            found = self.translate(tf.constant([texts[i] for i in rows]))["text"].numpy()
            for i, text in zip(rows, found, strict=True):
                results[i] = text.decode()
        return results

    def _decode(self, source):
        """Source ids (B, S) with END, padded → tokens (B, n_best, T), score, length (B, n_best)."""
        values = [(v, tf.convert_to_tensor(v.value)) for v in self.model.variables]
        with keras.StatelessScope(state_mapping=values):  # reads each weight once, not once a step
            state = self.model.initial_state({"source": source}, self.max_length)
            length = tf.reduce_sum(tf.cast(source != PAD, tf.int32), axis=1)
            found = self.decoder(
                self.model.step,
                state,
                tf.shape(source)[0],
                self.max_length,
                START,
                END,
                PAD,
                limit=2 * length + 10,  # no translation is longer; a model that babbles is stopped
            )
        return {name: found[name] for name in ("tokens", "score", "length")}

    def _translate(self, text):
        """Strings (B,) → the best translation and what there is to know of it."""
        source = encode_source(self.source_tokenizer, text, self.max_length)
        found = self.decode(source)
        tokens, score = found["tokens"], found["score"]
        is_empty = source[:, 0] == END  # nothing is to be said of nothing
        n_best = tf.where(is_empty[:, None], "", self.target_tokenizer.decode(tokens))
        return {
            "text": n_best[:, 0],
            "score": tf.where(is_empty, 0.0, score[:, 0]),
            "n_best": n_best,
            "n_best_score": tf.where(is_empty[:, None], 0.0, score),
            "tokens": tokens[:, 0],
            "alignment": self.align(source, tokens[:, 0]),
        }

    def align(self, source, tokens):
        """How much each token (B, T) read of each source token (B, S): (B, T, S), rows sum to 1.

        The mean over the decoder's heads and blocks.
        """
        target = tf.concat([tf.fill([tf.shape(tokens)[0], 1], START), tokens[:, :-1]], axis=1)
        maps = self.model.attention_maps({"source": source, "target": target})
        cross = [weights for name, weights in maps.items() if name.endswith("/cross")]
        weights = tf.reduce_mean(tf.concat(cross, axis=1), axis=1)
        return tf.where((tokens != PAD)[:, :, None], weights, 0.0)
