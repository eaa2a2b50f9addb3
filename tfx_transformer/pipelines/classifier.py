"""Classifier: a model with everything between the bytes of an image file and a class name."""

import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.images.pixels import normalize
from tfx_transformer.models.vit import ViT
from tfx_transformer.pipelines.base import Prediction
from tfx_transformer.pipelines.images import ImagePipeline
from tfx_transformer.runtime import apply_to_batch, graph


class Classifier(ImagePipeline):
    """Classifies images: `classifier(open("cat.jpg", "rb").read())` → {"cat": 0.9, …}.

    Args:
        model: images (B, size, size, 3) → logits (B, C); has an `image_size`.
        class_names: C names.
        top_k: number of classes to return, at most C.
        jit_compile: whether XLA compiles the model, once for each batch size.
        image_options: of `ImageOptions`, as in training: resize, crop_ratio, normalization,
            max_pixels.
    """

    kind = "classifier"
    result = Prediction

    def __init__(self, model, class_names, top_k=5, jit_compile=False, **image_options):
        super().__init__(model, **image_options)
        check_positive(top_k=top_k)
        check_class_names(class_names, model)
        self.class_names, self.jit_compile = list(class_names), jit_compile
        self.top_k = min(top_k, len(class_names))
        (images,) = self.predict_pixels.input_signature
        self.logits = graph(self._logits, images, jit_compile=jit_compile)
        self.predict_scores = graph(self._scores, images)
        (encoded,) = self.predict.input_signature
        self.explain = graph(lambda image: self._predict_files(image, self._explain), encoded)

    def signatures(self):
        # a rollout needs attention between all patches in every block
        has_rollout = isinstance(transformer(self.model), ViT)
        return super().signatures() | ({"explain": self.explain} if has_rollout else {})

    def _scores(self, image):
        """Pixels in 0 … 1 → probabilities of all classes (B, C), for LiteRT and ONNX."""
        return {"scores": tf.nn.softmax(tf.cast(self.logits(255 * image), tf.float32))}

    def _predict(self, image):
        return top_classes(apply_to_batch(self.logits, image), self.class_names, self.top_k)

    def _explain(self, image):
        """Pixels in 0 … 255 → the outputs of `predict`, and the attention rollout (B, R, S)."""
        return self._predict(image) | {"rollout": apply_to_batch(self._rollout, image)}

    def _rollout(self, image):
        maps = self.model.attention_maps(normalize(image, self.image_options.normalization))
        vit = transformer(self.model)
        return rollout(maps.values(), vit.grid(vit.input_shapes()), vit.num_tokens)

    def _logits(self, image):
        """Pixels in 0 … 255 → logits (B, C)."""
        return self.model(normalize(image, self.image_options.normalization), training=False)


def top_classes(logits, class_names, top_k):
    """Logits (B, C) → the best class and its probability (B,), and the `top_k` best."""
    scores, indices = tf.math.top_k(tf.nn.softmax(tf.cast(logits, tf.float32)), top_k)
    labels = tf.gather(tf.constant(class_names), indices)
    return {"label": labels[:, 0], "score": scores[:, 0], "labels": labels, "scores": scores}


def transformer(model):
    """The model, or the Vision Transformer that it applies to a smaller image."""
    return getattr(model, "vit", model)


def rollout(maps, grid, num_tokens):
    """Attention rollout from the class tokens to the patches: (B, R, S), each sums to one.

    The definition of `visualization.rollout.token_rollout`, for a batch.

    Args:
        maps: of each layer (B, H, N, N).
        grid: R and S.
        num_tokens: number of class tokens; without one the mean over all patches counts.
    """
    total = None  # (B, N, N)
    for weights in maps:
        mean = tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)
        step = mean + tf.eye(mean.shape[-1])
        step /= tf.reduce_sum(step, axis=-1, keepdims=True)
        total = step if total is None else step @ total
    attention = tf.reduce_mean(total[:, : num_tokens or None, num_tokens:], axis=1)  # (B, R·S)
    attention = tf.math.divide_no_nan(attention, tf.reduce_sum(attention, axis=1, keepdims=True))
    return tf.reshape(attention, [-1, *grid])


def check_class_names(class_names, model) -> None:
    if len(class_names) != model.num_classes:
        raise ValueError(
            f"class_names must have {model.num_classes} names, as the model has classes; "
            f"got {len(class_names)}"
        )
