"""Captioner: a model with everything between the bytes of an image file and its caption."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.images.pixels import normalize
from tfx_transformer.pipelines.base import GeneratedText
from tfx_transformer.pipelines.decode import (
    cross_attention,
    decode,
    make_decoder,
    mean_attention,
    text_outputs,
)
from tfx_transformer.pipelines.images import ImagePipeline
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


class Captioner(ImagePipeline):
    """Describes images: `captioner(open("dog.jpg", "rb").read())` → "a dog runs".

    Args:
        model: a captioning model such as `ShowAttendTell`.
        tokenizer: of the captions.
        decoder: a name in DECODERS, or a dict of its options.
        max_length: maximum length of a caption in tokens, END included.
        image_options: of `ImageOptions`, as in training: resize, crop_ratio, normalization,
            max_pixels.
    """

    kind = "captioner"
    result = Caption

    def __init__(self, model, tokenizer, decoder="beam", max_length=32, **image_options):
        super().__init__(model, **image_options)
        check_positive(max_length=max_length)
        self.tokenizer, self.max_length = tokenizer, max_length
        self.decoder, self.seeds = make_decoder(decoder)
        features = tf.TensorSpec([None, None, model.image_encoder.dim], tf.float32, name="features")
        self.encode = graph(self._encode, *self.predict_pixels.input_signature)
        self.describe = graph(self._describe, features)

    def _predict(self, image):
        return self.describe(self.encode(image))

    def _encode(self, image):
        """Pixels in 0 … 255 → image features (B, S, C), in float32 for any precision."""
        pixels = normalize(image, self.image_options.normalization)
        return tf.cast(apply_to_batch(self.model.encode_image, pixels), tf.float32)

    def _describe(self, features):
        """Image features (B, S, C) → captions, scores, subwords and attention weights."""
        length = tf.constant(self.max_length)
        inputs, batch_size = {"features": features}, tf.shape(features)[0]
        decoded = decode(self.model, self.decoder, inputs, batch_size, length, compact=True)
        tokens = decoded["tokens"]
        outputs = text_outputs(
            self.tokenizer, tokens[:, 0], self.tokenizer.decode(tokens), decoded["score"]
        )
        return outputs | {"weights": self.attention(features, tokens[:, 0])}

    def attention(self, features, tokens):
        """Attention from each token (B, T) to each region: (B, T, rows, columns)."""
        rows, columns = self.model.grid()
        weights = cross_attention(self.model, {"features": features}, tokens, rows * columns)
        return tf.reshape(mean_attention(weights), [-1, tf.shape(tokens)[1], rows, columns])
