"""Batches `(images, targets, weights)` for image classification.

Images are (B, size, size, 3), normalized; targets are distributions over the classes (B, C),
because mixed images have mixed labels.
"""

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_choice, check_fraction, check_positive
from tfx_transformer.data.epochs import EpochBatches
from tfx_transformer.data.images.augment import augment_image, mix
from tfx_transformer.data.images.augmentation_options import Augmentation
from tfx_transformer.data.images.options import MAX_PIXELS, RESIZE
from tfx_transformer.data.images.pixels import NORMALIZATION, decode, normalize
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
        normalization: a name in NORMALIZATION.
        augmentation: the random changes of the images.
        seed: of the order and of the augmentation.
        crop_ratio, resize, max_pixels: as in `ImageOptions`.
        class_weights: "balanced" gives all classes the same total weight, "none" all images.
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
        normalization: str = "half",
        augmentation: Augmentation = DEFAULT,
        seed: int = 0,
        crop_ratio: float = 1.0,
        resize: str = "crop",
        max_pixels: int = MAX_PIXELS,
        class_weights: str = "none",
    ):
        check_positive(image_size=image_size, batch_size=batch_size, max_pixels=max_pixels)
        check_choice(*NORMALIZATION, normalization=normalization)
        check_choice(*RESIZE, resize=resize)
        check_choice(*CLASS_WEIGHTS, class_weights=class_weights)
        check_fraction(crop_ratio=crop_ratio)
        self.images, self.image_size, self.normalization = images, image_size, normalization
        self.augmentation, self.seed = augmentation, seed
        self.crop_ratio, self.resize, self.max_pixels = crop_ratio, resize, max_pixels
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
        image = decode(encoded, self.max_pixels)
        image = augment_image(
            image, seed, self.image_size, self.augmentation, self.crop_ratio, self.resize
        )
        return image, tf.one_hot(label, len(self.images.class_names)), seed

    def make_batch(self, images, labels, seeds):
        mixup, cutmix = self.augmentation.mixup, self.augmentation.cutmix
        images, labels = mix(images, labels, -seeds[0], mixup, cutmix)
        weights = tf.linalg.matvec(labels, self.class_weights)  # of mixed labels, mixed weights
        return normalize(images, self.normalization), labels, weights
