"""Batches `(images, targets, weights)` for image classification.

Images are (B, size, size, 3), normalized; targets are distributions over the classes (B, C),
because mixed images have mixed labels.
"""

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.data.epochs import EpochBatches
from tfx_transformer.data.images.augment import mix, read_augmented
from tfx_transformer.data.images.options import Augmentation, ImageOptions
from tfx_transformer.data.images.pixels import normalize
from tfx_transformer.data.images.sources import Images

DEFAULT = Augmentation()
CLASS_WEIGHTS = ("none", "balanced")


class ImageBatches(EpochBatches):
    """Shuffled batches of augmented images; an incomplete last batch of an epoch is dropped.

    A batch is `(images (B, size, size, 3), targets (B, C), weights (B,))`.

    Args:
        images: from `load_images`.
        image_size: height and width.
        batch_size: smaller if there are fewer images.
        augmentation: the random changes of the images.
        seed: of the order and of the augmentation.
        class_weights: "balanced" gives all classes the same total weight, "none" all images.
        image_options: of `ImageOptions`: resize, crop_ratio, normalization, max_pixels.
    """

    signature = (
        tf.TensorSpec([None], tf.string, name="encoded"),
        tf.TensorSpec([None], tf.int32, name="labels"),
        tf.TensorSpec([None, 2], tf.int32, name="seeds"),
    )

    def __init__(
        self,
        images: Images,
        image_size: int,
        batch_size: int = 128,
        augmentation: Augmentation = DEFAULT,
        seed: int = 0,
        class_weights: str = "none",
        **image_options,
    ):
        check_positive(image_size=image_size, batch_size=batch_size)
        check_choice(*CLASS_WEIGHTS, class_weights=class_weights)
        self.images, self.image_size, self.augmentation = images, image_size, augmentation
        self.options, self.seed = ImageOptions(**image_options), seed
        counts = np.bincount(images.labels, minlength=len(images.class_names))
        balanced = len(images) / (len(counts) * np.maximum(counts, 1))
        weights = balanced if class_weights == "balanced" else np.ones(len(counts))
        self.class_weights = weights.astype("float32")  # (C,)
        num_examples = len(images) * augmentation.repeats
        self.batch_size = min(batch_size, num_examples)
        self.steps_per_epoch = num_examples // self.batch_size

    def __str__(self) -> str:
        return f"{self.images}\n{self.steps_per_epoch:,} batches of {self.batch_size}"

    def batch_arrays(self, epoch, step):
        """The encoded images of each batch, their labels and a seed for each."""
        rng = np.random.default_rng([self.seed, epoch])
        rows = np.repeat(rng.permutation(len(self.images)), self.augmentation.repeats)
        seeds = rng.integers(1, 2**31, (len(rows), 2), dtype="int32")
        for i in range(step, self.steps_per_epoch):
            part = slice(i * self.batch_size, (i + 1) * self.batch_size)
            encoded = np.array([self.images.items[row] for row in rows[part]], object)
            yield encoded, self.images.labels[rows[part]], seeds[part]

    def map_example(self, encoded, label, seed):
        image = read_augmented(encoded, seed, self.image_size, self.augmentation, self.options)
        return image, tf.one_hot(label, len(self.images.class_names)), seed

    def make_batch(self, images, labels, seeds):
        mixup, cutmix = self.augmentation.mixup, self.augmentation.cutmix
        images, labels = mix(images, labels, -seeds[0], mixup, cutmix)
        weights = tf.linalg.matvec(labels, self.class_weights)  # of mixed labels, mixed weights
        return normalize(images, self.options.normalization), labels, weights
