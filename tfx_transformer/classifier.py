"""A model with all that stands between a picture file and the name of its class."""

import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.pixels import centre_crop, decode, normalise
from tfx_transformer.graph import graph


class Classifier(tf.Module):
    """Bytes of pictures → names of their classes.

    `classify` (files of any size, as bytes) and `predict` (images that are already small) are
    graphs, which `export_classifier` writes; `read` and `logits` are their halves.

    Args:
        model: images (B, size, size, 3) → logits (B, C); has an `image_size`.
        class_names: C of them.
        crop_ratio: which part of a picture's shorter side is seen.
        normalisation: a name in NORMALISATION, as in training.
        top_k: how many classes are named, at most C.
        jit_compile: whether XLA compiles the model, anew for each number of images.
    """

    def __init__(
        self,
        model,
        class_names,
        crop_ratio=1.0,
        normalisation="half",
        top_k=5,
        jit_compile=False,
    ):
        super().__init__()
        check_positive(top_k=top_k)
        if len(class_names) != model.num_classes:
            raise ValueError(
                f"class_names must be {model.num_classes}, as the model's; got {len(class_names)}"
            )
        self.model, self.class_names = model, list(class_names)
        self.crop_ratio, self.normalisation = crop_ratio, normalisation
        self.top_k = min(top_k, len(class_names))
        size = model.image_size
        encoded = tf.TensorSpec([None], tf.string, name="image")
        images = tf.TensorSpec([None, size, size, 3], tf.float32, name="image")
        self.read = graph(self._read, encoded)
        self.classify = graph(self._classify, encoded)
        self.predict = graph(self._predict, images)
        self.logits = graph(self._logits, images, jit_compile=jit_compile)

    def _classify(self, image):
        """Files (B,) → as `predict`, and which were readable; the others have no label."""
        images, is_readable = self.read(image)
        found = self._answer(self.logits(images))
        flag = is_readable[:, None]
        labels, scores = tf.where(flag, found["labels"], ""), tf.where(flag, found["scores"], 0.0)
        return {
            "label": labels[:, 0],
            "score": scores[:, 0],
            "labels": labels,
            "scores": scores,
            "is_readable": is_readable,
        }

    def _predict(self, image):
        """Pixels (B, size, size, 3) from 0 to 1 → the likeliest classes and their shares."""
        return self._answer(self.logits(255 * image))

    def _logits(self, image):
        """Pixels from 0 to 255 → logits (B, C)."""
        return self.model(normalise(image, self.normalisation), training=False)

    def _answer(self, logits):
        scores, places = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), self.top_k)
        labels = tf.gather(tf.constant(self.class_names), places)
        return {
            "label": labels[:, 0],
            "score": scores[:, 0],
            "labels": labels,
            "scores": scores,
        }

    def _read(self, image):
        """Files (B,) → images (B, size, size, 3) from 0 to 255, and which of them are readable.

        A decoder fails for a whole batch; a data set inside the graph may drop what fails.
        """
        size, count = self.model.image_size, tf.size(image, tf.int64)

        def prepare(place, encoded):
            return place, centre_crop(decode(encoded), size, self.crop_ratio)

        nothing = tf.data.Dataset.from_tensors((count, tf.zeros([size, size, 3])))
        files = tf.data.Dataset.from_tensor_slices(image).enumerate()
        files = files.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()
        places, images = files.concatenate(nothing).batch(count + 1).get_single_element()
        shape = tf.stack([count + 1, size, size, 3])
        images = tf.scatter_nd(places[:, None], images, shape)[:-1]
        is_readable = tf.scatter_nd(places[:, None], tf.ones_like(places), [count + 1])[:-1] > 0
        images.set_shape([None, size, size, 3])
        return images, is_readable
