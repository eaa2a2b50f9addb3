"""A language model, its tokenizer and a decoder: the beginning of a text in, how it goes on out."""

import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.tokenizer import PAD
from tfx_transformer.decoding import DECODERS
from tfx_transformer.graph import graph
from tfx_transformer.search import search, with_own_seed


class Generator(tf.Module):
    """Continues texts; a `tf.Module`, so that it can be exported as it stands.

    Args:
        model: has `initial_state`, `step` and `max_length`, its number of positions.
        tokenizer: of the texts.
        decoder: a name in DECODERS, or a dict of its options. A "sample" without a seed draws other
            tokens in each call.
        max_length: longest continuation in tokens, END included, below the model's number of
            positions; half of it if None. What is left is for the prompt: of a longer one the end
            counts.
    """

    def __init__(self, model, tokenizer, decoder="sample", max_length=None):
        super().__init__()
        positions = model.max_length
        max_length = max(positions // 2, 1) if max_length is None else max_length
        check_positive(max_length=max_length)
        if max_length >= positions:
            raise ValueError(f"max_length must leave one of {positions} positions; {max_length=}")
        self.model, self.tokenizer, self.max_length = model, tokenizer, max_length
        self.decoder, self.seeds = with_own_seed(DECODERS.make(decoder))
        text = tf.TensorSpec([None], tf.string, name="text")
        length = tf.TensorSpec([], tf.int32, name="max_length")
        self.limited = graph(self._generate, text, length)
        self.generate = graph(lambda text: self.limited(text, max_length), text)

    def __call__(self, prompts) -> list[str]:
        """What follows each of some prompts, without the prompt itself."""
        return [text.decode() for text in self.generate(tf.constant(prompts))["text"].numpy()]

    def _generate(self, text, max_length):
        """Prompts (B,) → how they go on, and what there is to know of it."""
        room = self.model.max_length - self.max_length
        prompt = self.tokenizer.encode(text)[:, -room:].to_tensor(PAD)  # (B, P)
        length = tf.reduce_sum(tf.cast(prompt != PAD, tf.int32), axis=1)
        max_length = tf.clip_by_value(max_length, 1, self.max_length)
        found = search(
            self.model,
            self.decoder,
            prompt,
            tf.shape(prompt)[0],
            tf.shape(prompt)[1] + max_length,
            length + max_length,
            prompt,
        )
        start, n_best = self.tokenizer.decode(prompt), self.tokenizer.decode(found["tokens"])
        size = tf.strings.length(n_best)
        place = tf.minimum(tf.strings.length(start)[:, None], size)
        n_best = tf.strings.substr(n_best, place, size)
        n_best.set_shape([None, found["tokens"].shape[1]])
        tokens = behind(found["tokens"][:, 0], length)[:, :max_length]
        return {
            "text": n_best[:, 0],
            "score": found["score"][:, 0],
            "n_best": n_best,
            "n_best_score": found["score"],
            "tokens": tokens,
            "pieces": self.tokenizer.to_pieces(tokens),
            "prompt": start,
        }


def behind(tokens, length):
    """What stands in rows (B, T) behind their first `length` (B,) tokens: (B, T), PAD behind it."""
    places = length[:, None] + tf.range(tf.shape(tokens)[1])
    padded = tf.pad(tokens, [[0, 0], [0, 1]], constant_values=PAD)
    return tf.gather(padded, tf.minimum(places, tf.shape(tokens)[1]), batch_dims=1)
