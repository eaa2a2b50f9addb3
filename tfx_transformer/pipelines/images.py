"""The base of all pipelines of images: from the bytes of files to pixels."""

import abc
from dataclasses import asdict

import tensorflow as tf

from tfx_transformer.data.images.options import ImageOptions
from tfx_transformer.data.images.pixels import decode_batch
from tfx_transformer.pipelines.base import Pipeline
from tfx_transformer.runtime import graph


class ImagePipeline(Pipeline):
    """A pipeline whose items are image files; a subclass defines `_predict`."""

    def __init__(self, model, **image_options):
        super().__init__()
        self.model, self.image_options = model, ImageOptions(**image_options)
        size, read = model.image_size, self.image_options
        encoded = tf.TensorSpec([None], tf.string, name="image")
        images = tf.TensorSpec([None, size, size, 3], tf.float32, name="image")
        how = (size, read.crop_ratio, read.resize, read.max_pixels)
        self.read = graph(lambda image: decode_batch(image, *how), encoded)
        self.predict = graph(lambda image: self._predict_files(image, self._predict), encoded)
        self.predict_pixels = graph(lambda image: self._predict(255 * image), images)

    def signatures(self):
        # "images" takes pixels (B, size, size, 3) in 0 … 1
        return {"serving_default": self.predict, "images": self.predict_pixels}

    def options(self):
        size = {"image_size": self.model.image_size}
        return super().options() | asdict(self.image_options) | size

    @abc.abstractmethod
    def _predict(self, image):
        """Pixels (B, size, size, 3) in 0 … 255 → outputs with a row for each image."""

    def _predict_files(self, image, predict):
        """Files (B,) → outputs, and which files were readable; the others have empty outputs."""
        images, is_readable = self.read(image)

        def keep(x):
            rows = tf.reshape(is_readable, (-1, *[1] * (len(x.shape) - 1)))
            return tf.where(rows, x, tf.zeros_like(x))

        outputs = {name: keep(x) for name, x in predict(images).items()}
        return outputs | {"is_readable": is_readable}
