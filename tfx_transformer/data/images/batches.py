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
        tf.TensorSpec([None, 2], tf.int32, name="mix_seeds"),  # the same for all rows
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

    def divide(self, share):
        if self.batch_size % share.replicas:
            raise ValueError(
                f"the {share.replicas} replicas must divide data.batch_size={self.batch_size}"
            )
        if self.augmentation.mixes_images and share.workers > 1 and share.size(self.batch_size) % 2:
            raise ValueError(
                "images are mixed in pairs: each worker must have an even number of the "
                f"{self.batch_size} images of a batch; got {share.workers} workers"
            )
        super().divide(share)

    def own_rows(self) -> np.ndarray:
        """The positions in a batch of the images of a share, so that pairs are in the same one.

        An image is mixed with the one at the same distance from the other end of the batch.
        """
        size, share = self.batch_size, self.share
        if share.workers == 1 or not self.augmentation.mixes_images:
            return share.of(np.arange(size), 0)
        half = share.size(size) // 2
        front = np.arange(share.index * half, (share.index + 1) * half)
        return np.concatenate([front, size - 1 - front[::-1]])

    def take(self, rows: list[int]) -> list[bytes]:
        """The encoded images of some rows."""
        items = self.images.items
        return items.take(rows) if hasattr(items, "take") else [items[row] for row in rows]

    def batch_arrays(self, epoch, step):
        """The encoded images of each batch, their labels and seeds, and the seed of the batch."""
        rng = np.random.default_rng([self.seed, epoch])
        rows = np.repeat(rng.permutation(len(self.images)), self.augmentation.repeats)
        seeds = rng.integers(1, 2**31, (len(rows), 2), dtype="int32")
        own = self.own_rows()
        for i in range(step, self.steps_per_epoch):
            first = i * self.batch_size
            part = first + own
            encoded = np.array(self.take(rows[part].tolist()), object)
            mix_seeds = np.broadcast_to(seeds[first], (len(own), 2))
            yield encoded, self.images.labels[rows[part]], seeds[part], mix_seeds

    def map_example(self, encoded, label, seed, mix_seed):
        image = read_augmented(encoded, seed, self.image_size, self.augmentation, self.options)
        return image, tf.one_hot(label, len(self.images.class_names)), mix_seed

    def make_batch(self, images, labels, mix_seeds):
        mixup, cutmix = self.augmentation.mixup, self.augmentation.cutmix
        images, labels = mix(images, labels, -mix_seeds[0], mixup, cutmix)
        weights = tf.linalg.matvec(labels, self.class_weights)  # of mixed labels, mixed weights
        return normalize(images, self.options.normalization), labels, weights
