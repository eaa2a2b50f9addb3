"""Generator: a language model, its tokenizer and a decoder; continues texts."""

import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.text.tokenizer import PAD
from tfx_transformer.pipelines.base import GeneratedText, Pipeline
from tfx_transformer.pipelines.decode import decode, make_decoder, text_outputs
from tfx_transformer.runtime import graph


class Generator(Pipeline):
    """Continues texts: `generator("Once upon a time")` returns the continuation.

    Args:
        model: has `initial_state`, `step` and `max_length`, its number of positions.
        tokenizer: of the texts.
        decoder: a name in DECODERS, or a dict of its options. A "sample" decoder without a seed
            samples other tokens in each call.
        max_length: maximum length of a continuation in tokens, END included, less than the model's
            number of positions; half of it if None. Prompts are truncated on the left to the rest.
    """

    kind = "generator"
    result = GeneratedText

    def __init__(self, model, tokenizer, decoder="sample", max_length=None):
        super().__init__()
        positions = model.max_length
        max_length = max(positions // 2, 1) if max_length is None else max_length
        check_positive(max_length=max_length)
        if max_length >= positions:
            raise ValueError(
                f"max_length must be less than the model's {positions} positions; got {max_length=}"
            )
        self.model, self.tokenizer, self.max_length = model, tokenizer, max_length
        self.decoder, self.seeds = make_decoder(decoder)
        text = tf.TensorSpec([None], tf.string, name="text")
        length = tf.TensorSpec([], tf.int32, name="max_length")
        self.predict_limited = graph(self._generate, text, length)
        self.predict = graph(lambda text: self.predict_limited(text, max_length), text)

    def signatures(self):
        # "limited" takes a smaller max_length too
        return {"serving_default": self.predict, "limited": self.predict_limited}

    def _generate(self, text, max_length):
        """Prompts (B,) → continuations, scores and tokens."""
        prompt_length = self.model.max_length - self.max_length
        ids = self.tokenizer.encode(text)
        prompt = ids[:, -prompt_length:].to_tensor(PAD)  # (B, P)
        length = tf.reduce_sum(tf.cast(prompt != PAD, tf.int32), axis=1)
        max_length = tf.clip_by_value(max_length, 1, self.max_length)
        decoded = decode(
            self.model,
            self.decoder,
            prompt,
            tf.shape(prompt)[0],
            tf.shape(prompt)[1] + max_length,
            length + max_length,
            prompt,
            compact=True,
        )
        start, n_best = self.tokenizer.decode(prompt), self.tokenizer.decode(decoded["tokens"])
        size = tf.strings.length(n_best)
        begin = tf.minimum(tf.strings.length(start)[:, None], size)
        n_best = tf.strings.substr(n_best, begin, size)
        tokens = remove_prefix(decoded["tokens"][:, 0], length)[:, :max_length]
        return text_outputs(self.tokenizer, tokens, n_best, decoded["score"]) | {
            "prompt": start,
            "truncated": ids.row_lengths() > prompt_length,
        }


def remove_prefix(tokens, length):
    """Rows (B, T) without their first `length` (B,) tokens: (B, T), padded with PAD."""
    indices = length[:, None] + tf.range(tf.shape(tokens)[1])
    padded = tf.pad(tokens, [[0, 0], [0, 1]], constant_values=PAD)
    return tf.gather(padded, tf.minimum(indices, tf.shape(tokens)[1]), batch_dims=1)
