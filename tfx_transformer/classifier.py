"""A model with all that stands between a picture file and the name of its class."""

import tensorflow as tf

from tfx_transformer.checks import check_positive, check_share
from tfx_transformer.data.pixels import decode_batch, normalise
from tfx_transformer.graph import at_least_one, graph


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
        check_share(crop_ratio=crop_ratio)
        check_names(class_names, model)
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
        found = self._best(images)
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
        return self._best(255 * image)

    def _best(self, image):
        return name_classes(at_least_one(self.logits, image), self.class_names, self.top_k)

    def _logits(self, image):
        """Pixels from 0 to 255 → logits (B, C)."""
        return self.model(normalise(image, self.normalisation), training=False)

    def _read(self, image):
        """Files (B,) → images (B, size, size, 3) from 0 to 255, and which of them are readable."""
        return decode_batch(image, self.model.image_size, self.crop_ratio)


def name_classes(logits, class_names, top_k):
    """Logits (B, C) → the likeliest class and its share (B,), and the `top_k` likeliest."""
    scores, places = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), top_k)
    labels = tf.gather(tf.constant(class_names), places)
    return {"label": labels[:, 0], "score": scores[:, 0], "labels": labels, "scores": scores}


def check_names(class_names, model) -> None:
    if len(class_names) != model.num_classes:
        raise ValueError(
            f"class_names must be {model.num_classes}, as the model's; got {len(class_names)}"
        )
