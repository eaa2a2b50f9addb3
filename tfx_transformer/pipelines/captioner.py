"""Captioner: a model with everything between the bytes of an image file and its caption."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_fraction, check_positive
from tfx_transformer.data.images.pixels import decode_batch, normalize
from tfx_transformer.data.text.tokenizer import PAD, START
from tfx_transformer.pipelines.base import GeneratedText, Pipeline
from tfx_transformer.pipelines.decode import decode, decoder_options, make_decoder
from tfx_transformer.runtime import apply_to_batch, graph


@dataclass(frozen=True)
class Caption(GeneratedText):
    """A caption of one image; empty if the image could not be read."""

    weights: np.ndarray  # (T, rows, columns), attention from each subword to each image region
    is_readable: bool

    @classmethod
    def fields(cls, outputs, row):
        fields = super().fields(outputs, row)
        weights = outputs["weights"][row, : len(fields["pieces"])]
        return fields | {"weights": weights, "is_readable": bool(outputs["is_readable"][row])}


class Captioner(Pipeline):
    """Describes images: `captioner(open("dog.jpg", "rb").read())` → "a dog runs".

    Args:
        model: a captioning model such as `ShowAttendTell`.
        tokenizer: of the captions.
        decoder: a name in DECODERS, or a dict of its options.
        max_length: maximum length of a caption in tokens, END included.
        crop_ratio: fraction of an image's shorter side that is used.
        normalization: a name in NORMALIZATION, as in training.
    """

    kind = "captioner"
    result = Caption

    def __init__(
        self,
        model,
        tokenizer,
        decoder="beam",
        max_length=32,
        crop_ratio=1.0,
        normalization="imagenet",
    ):
        super().__init__()
        check_positive(max_length=max_length)
        check_fraction(crop_ratio=crop_ratio)
        self.model, self.tokenizer = model, tokenizer
        self.decoder, self.seeds = make_decoder(decoder)
        self.max_length = max_length
        self.crop_ratio, self.normalization = crop_ratio, normalization
        size = model.image_size
        encoded = tf.TensorSpec([None], tf.string, name="image")
        images = tf.TensorSpec([None, size, size, 3], tf.float32, name="image")
        features = tf.TensorSpec([None, None, model.image_encoder.dim], tf.float32, name="features")
        self.read = graph(lambda image: decode_batch(image, size, crop_ratio), encoded)
        self.encode = graph(self._encode, images)
        self.describe = graph(self._describe, features)
        self.predict = graph(self._caption, encoded)
        self.predict_pixels = graph(lambda image: self.describe(self.encode(255 * image)), images)

    def signatures(self):
        return {
            "serving_default": self.predict,
            "images": self.predict_pixels,  # pixels (B, size, size, 3) in 0 … 1
        }

    def resources(self):
        return [self.tokenizer, *self.seeds]

    def options(self):
        return {
            "decoder": decoder_options(self.decoder),
            "max_length": self.max_length,
            "image_size": self.model.image_size,
            "crop_ratio": self.crop_ratio,
            "normalization": self.normalization,
        }

    def _encode(self, image):
        """Pixels in 0 … 255 → image features (B, S, C), in float32 for any precision."""
        features = apply_to_batch(self.model.encode_image, normalize(image, self.normalization))
        return tf.cast(features, tf.float32)

    def _caption(self, image):
        """Files (B,) → captions, and which files were readable; the others have no caption."""
        images, is_readable = self.read(image)
        outputs = self.describe(self.encode(images))

        def keep(x, empty):
            shape = (-1, *[1] * (len(x.shape) - 1))
            return tf.where(tf.reshape(is_readable, shape), x, empty)

        empty = {tf.string: "", tf.float32: 0.0, tf.int32: PAD}
        outputs = {name: keep(x, empty[x.dtype]) for name, x in outputs.items()}
        return outputs | {"is_readable": is_readable}

    def _describe(self, features):
        """Image features (B, S, C) → captions, scores, subwords and attention weights."""
        length = tf.constant(self.max_length)
        inputs, batch_size = {"features": features}, tf.shape(features)[0]
        decoded = decode(self.model, self.decoder, inputs, batch_size, length)
        tokens, score = decoded["tokens"], decoded["score"]
        n_best = self.tokenizer.decode(tokens)
        n_best.set_shape([None, tokens.shape[1]])
        return {
            "text": n_best[:, 0],
            "score": score[:, 0],
            "n_best": n_best,
            "n_best_score": score,
            "tokens": tokens[:, 0],
            "pieces": self.tokenizer.to_pieces(tokens[:, 0]),
            "weights": self.attention(features, tokens[:, 0]),
        }

    def attention(self, features, tokens):
        """Attention from each token (B, T) to each region, summing to 1: (B, T, rows, columns).

        Zeros for a model without attention.
        """
        rows, columns = self.model.grid()
        batch_size, length = tf.unstack(tf.shape(tokens))
        target = tf.concat([tf.fill([batch_size, 1], START), tokens[:, :-1]], axis=1)
        maps = self.model.attention_maps({"features": features, "target": target})
        if not maps:
            return tf.zeros([batch_size, length, rows, columns])
        weights = tf.reduce_mean(maps["decoder/cross"], axis=1)
        weights = tf.where((tokens != PAD)[:, :, None], weights, 0.0)
        return tf.reshape(weights, [-1, length, rows, columns])
