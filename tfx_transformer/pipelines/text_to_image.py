"""TextToImage: a model with everything between a string and the bytes of an image file."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.tokenizer import PAD, START
from tfx_transformer.decoding import SamplingDecoder
from tfx_transformer.pipelines.base import Pipeline, is_truncated
from tfx_transformer.pipelines.decode import decode, make_decoder
from tfx_transformer.runtime import apply_to_batch, graph


@dataclass(frozen=True)
class GeneratedImage:
    """The images of a text, as PNG files."""

    image: bytes  # the most likely one
    score: float  # its log-probability
    n_best: list[tuple[bytes, float]]  # all images with their scores, best first
    truncated: bool = False  # whether the text was too long

    @property
    def value(self) -> bytes:
        """What a call of the pipeline returns."""
        return self.image

    @classmethod
    def unpack(cls, outputs: dict[str, np.ndarray], row: int) -> "GeneratedImage":
        """One row of a batch of outputs."""
        images, scores = outputs["n_best_bytes"][row], outputs["n_best_score"][row].tolist()
        n_best = list(zip(images, scores, strict=True))
        return cls(images[0], scores[0], n_best, is_truncated(outputs, row))


class TextToImage(Pipeline):
    """Draws images: `text_to_image("a red circle")` → the bytes of a PNG file.

    Of several samples the most likely image comes first.

    Args:
        model: such as `DALLE`.
        image_model: makes images of its tokens, such as `DiscreteVAE`.
        tokenizer: of the texts.
        decoder: a name in DECODERS, or a dict of its options; `n_best` is the number of samples.
            Without a seed each call samples other images.
    """

    kind = "text_to_image"
    result = GeneratedImage

    def __init__(self, model, image_model, tokenizer, decoder="sample"):
        super().__init__()
        self.model, self.image_model, self.tokenizer = model, image_model, tokenizer
        self.decoder, self.seeds = make_decoder(decoder)
        text = tf.TensorSpec([None], tf.string, name="text")
        tokens = tf.TensorSpec([None, None], tf.int32, name="tokens")
        seed = tf.TensorSpec([None], tf.int32, name="seed")
        self.predict = graph(lambda text: self._draw(text, None), text)
        self.predict_seeded = graph(self._draw, text, seed)
        self.sample = graph(lambda text: self._sample(text, None), text)
        self.score = graph(self._score, tokens)
        self.pixels = graph(self._pixels, tokens)

    def signatures(self):
        seeded = {"seeded": self.predict_seeded}  # each row has its seed
        can_sample = isinstance(self.decoder, SamplingDecoder)
        return {"serving_default": self.predict} | (seeded if can_sample else {})

    def resources(self):
        return super().resources() + [variable.value for variable in self.image_model.variables]

    def prompts(self, text):
        """Strings (B,) → text tokens (B, T), and which texts were truncated (B,)."""
        ids, length = self.tokenizer.encode(text), self.model.text_length
        padded = ids[:, :length].to_tensor(PAD, shape=[None, length])
        return self.model.prompt(padded), ids.row_lengths() > length

    def _sample(self, text, seed):
        """Strings (B,) → tokens of texts and images (B, n, T + I), best first, and scores (B, n).

        The score is the log-probability of the image; that of the text is the same for all. With
        seeds (B,) the samples of a row depend on its text and its seed alone.
        """
        prompt, _ = self.prompts(text)
        batch_size, length = tf.shape(prompt)[0], self.model.max_length - 1
        random = None if seed is None else self._random(seed, length)
        tokens = decode(
            self.model, self.decoder, prompt, batch_size, length, prefix=prompt, random=random
        )["tokens"]
        count = tokens.shape[1]
        flat = tf.reshape(tokens, [-1, length])
        scores = tf.reshape(apply_to_batch(self._score, flat), [-1, count])
        order = tf.argsort(scores, direction="DESCENDING", stable=True)
        return tf.gather(tokens, order, batch_dims=1), tf.gather(scores, order, batch_dims=1)

    def _random(self, seed, length):
        """Seeds (B,) → numbers in 0 … 1 (B · n, length)."""
        shape = [self.decoder.n_best, length]
        rows = tf.map_fn(
            lambda one: tf.random.stateless_uniform(shape, tf.stack([one, 0])),
            seed,
            fn_output_signature=tf.float32,
        )
        return tf.reshape(rows, [-1, length])

    def _score(self, tokens):
        """Tokens of texts and images (B, T + I) → the log-probability of each image (B,)."""
        start = tf.fill([tf.shape(tokens)[0], 1], START)
        logits = self.model(tf.concat([start, tokens[:, :-1]], axis=1), training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens, tf.cast(logits, tf.float32))
        return -tf.reduce_sum(losses[:, self.model.text_length :], axis=1)

    def _pixels(self, tokens):
        """Tokens of texts and images (B, T + I) → images (B, h, w, 3), uint8."""
        codes = tokens[:, self.model.text_length :] - self.model.first_image_token
        # a token that was not generated, because the sequence ended, is the first code
        codes = tf.maximum(codes, 0)
        grid = tf.reshape(codes, [-1, *self.model.grid])
        return to_uint8(self.image_model.decode(grid))

    def _draw(self, text, seed):
        """Strings (B,) → the files of the images and their scores, best first."""
        tokens, scores = self._sample(text, seed)
        count = tokens.shape[1]
        images = apply_to_batch(self._pixels, tf.reshape(tokens, [-1, tokens.shape[2]]))
        files = tf.map_fn(tf.io.encode_png, images, fn_output_signature=tf.string)
        files = tf.ensure_shape(tf.reshape(files, [-1, count]), [None, count])
        return {
            "image_bytes": files[:, 0],
            "score": scores[:, 0],
            "n_best_bytes": files,
            "n_best_score": scores,
            "truncated": self.prompts(text)[1],
        }


def to_uint8(pixels):
    """Pixels -1 to 1 → uint8."""
    pixels = 127.5 * (tf.cast(pixels, tf.float32) + 1)
    return tf.cast(tf.round(tf.clip_by_value(pixels, 0, 255)), tf.uint8)
