"""Classifier: a model with everything between the bytes of an image file and a class name."""

import tensorflow as tf

from tfx_transformer.checks import check_fraction, check_positive
from tfx_transformer.data.images.pixels import decode_batch, normalize
from tfx_transformer.pipelines.base import Pipeline, Prediction
from tfx_transformer.runtime import apply_to_batch, graph


class Classifier(Pipeline):
    """Classifies images: `classifier(open("cat.jpg", "rb").read())` → {"cat": 0.9, …}.

    Args:
        model: images (B, size, size, 3) → logits (B, C); has an `image_size`.
        class_names: C names.
        crop_ratio: fraction of an image's shorter side that is used.
        normalization: a name in NORMALIZATION, as in training.
        top_k: number of classes to return, at most C.
        jit_compile: whether XLA compiles the model, once for each batch size.
    """

    kind = "classifier"
    result = Prediction

    def __init__(
        self,
        model,
        class_names,
        crop_ratio=1.0,
        normalization="half",
        top_k=5,
        jit_compile=False,
    ):
        super().__init__()
        check_positive(top_k=top_k)
        check_fraction(crop_ratio=crop_ratio)
        check_class_names(class_names, model)
        self.model, self.class_names = model, list(class_names)
        self.crop_ratio, self.normalization = crop_ratio, normalization
        self.top_k, self.jit_compile = min(top_k, len(class_names)), jit_compile
        size = model.image_size
        encoded = tf.TensorSpec([None], tf.string, name="image")
        images = tf.TensorSpec([None, size, size, 3], tf.float32, name="image")
        self.read = graph(lambda image: decode_batch(image, size, crop_ratio), encoded)
        self.logits = graph(self._logits, images, jit_compile=jit_compile)
        self.predict = graph(self._classify, encoded)
        self.predict_pixels = graph(lambda image: self._top_classes(255 * image), images)
        self.predict_scores = graph(self._scores, images)

    def signatures(self):
        return {
            "serving_default": self.predict,
            "images": self.predict_pixels,  # pixels (B, size, size, 3) in 0 … 1
        }

    def options(self):
        return {
            "class_names": list(self.class_names),
            "image_size": self.model.image_size,
            "crop_ratio": self.crop_ratio,
            "normalization": self.normalization,
            "top_k": self.top_k,
            "jit_compile": self.jit_compile,
        }

    def _classify(self, image):
        """Files (B,) → classes, and which files were readable; the others have no label."""
        images, is_readable = self.read(image)
        outputs = self._top_classes(images)
        labels = tf.where(is_readable[:, None], outputs["labels"], "")
        scores = tf.where(is_readable[:, None], outputs["scores"], 0.0)
        return {
            "label": labels[:, 0],
            "score": scores[:, 0],
            "labels": labels,
            "scores": scores,
            "is_readable": is_readable,
        }

    def _scores(self, image):
        """Pixels in 0 … 1 → probabilities of all classes (B, C), for LiteRT and ONNX."""
        return {"scores": tf.nn.softmax(tf.cast(self.logits(255 * image), tf.float32))}

    def _top_classes(self, image):
        return top_classes(apply_to_batch(self.logits, image), self.class_names, self.top_k)

    def _logits(self, image):
        """Pixels in 0 … 255 → logits (B, C)."""
        return self.model(normalize(image, self.normalization), training=False)


def top_classes(logits, class_names, top_k):
    """Logits (B, C) → the best class and its probability (B,), and the `top_k` best."""
    scores, indices = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), top_k)
    labels = tf.gather(tf.constant(class_names), indices)
    return {"label": labels[:, 0], "score": scores[:, 0], "labels": labels, "scores": scores}


def check_class_names(class_names, model) -> None:
    if len(class_names) != model.num_classes:
        raise ValueError(
            f"class_names must be {model.num_classes}, as the model's; got {len(class_names)}"
        )
