"""Encoded pictures → Keras's triples `(images, targets, weights)` for classification.

Images leave as (B, size, size, 3), with mean and deviation taken out; targets as distributions over
the classes (B, C), because mixed images have mixed labels.
"""

import sys

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.data import augment
from tfx_transformer.data.images import Images
from tfx_transformer.data.pixels import NORMALISATION, centre_crop, decode, normalise
from tfx_transformer.graph import as_it_is, untuned


def training_images(
    images: Images,
    image_size: int,
    batch_size: int = 128,
    normalisation: str = "half",
    crop: str = "pad",
    min_area: float = 0.08,
    padding: float = 0.125,
    flip: bool = True,
    rand_augment: int = 0,
    magnitude: float = 9.0,
    erase: float = 0.0,
    mixup: float = 0.0,
    cutmix: float = 0.0,
    repeats: int = 1,
    seed: int = 0,
) -> "ImageData":
    """Shuffled batches of changed images, all of one size; the rest of an epoch is left out.

    Args:
        images: from `load_images`.
        image_size: height and width.
        batch_size: smaller where there are fewer images.
        normalisation: a name in NORMALISATION.
        crop: "resized" (a random part of at least `min_area`), "pad" (a shift of up to `padding` of
            the size) or "none".
        flip: left to right, half of the images.
        rand_augment, magnitude: operations for each image, and how strong; see `rand_augment`.
        erase: how often a rectangle is erased.
        mixup, cutmix: see `mix`.
        repeats: how often an image comes in succession (arXiv:1901.09335).
        seed: of the order and of all changes.
    """
    check_positive(image_size=image_size, batch_size=batch_size, repeats=repeats)
    check_choice("resized", "pad", "none", crop=crop)
    check_choice(*NORMALISATION, normalisation=normalisation)
    check_rate(padding=padding, min_area=min_area)
    if not 0 <= magnitude <= augment.LEVELS:
        raise ValueError(f"magnitude must lie in 0 <= magnitude <= 10; got {magnitude=}")
    num_classes = len(images.class_names)

    def change(encoded, label, seed):
        """One image, and its label as a distribution."""
        crop_seed, flip_seed, rand_seed, erase_seed = tf.unstack(tf.random.split(seed, 4))
        image = decode(encoded)
        if crop == "resized":
            image = augment.resized_crop(image, crop_seed, image_size, min_area)
        else:
            image = centre_crop(image, image_size)
        if crop == "pad":
            image = augment.padded_crop(image, crop_seed, padding)
        if flip:
            image = augment.flip(image, flip_seed)
        if rand_augment:
            image = augment.rand_augment(image, rand_seed, rand_augment, magnitude)
        if erase:
            image = augment.erase(image, erase_seed, erase)
        return image, tf.one_hot(label, num_classes), seed

    def finish(images, labels, seeds):
        """A whole batch."""
        images, labels = augment.mix(images, labels, -seeds[0], mixup, cutmix)
        return normalise(images, normalisation), labels, tf.ones(tf.shape(labels)[0])

    return ImageData(images, change, finish, batch_size, repeats, seed)


_ORDER = (
    tf.TensorSpec([None], tf.string, name="encoded"),
    tf.TensorSpec([None], tf.int32, name="labels"),
    tf.TensorSpec([None, 2], tf.int32, name="seeds"),
)


class ImageData:
    """The order of the images, and what is done with each; made by `training_images`.

    Args:
        images: from `load_images`.
        change: of one image: bytes, label, seed → image, distribution, seed.
        finish: of a batch of these → the triple.
        batch_size, repeats, seed: see `training_images`.
    """

    def __init__(self, images: Images, change, finish, batch_size, repeats, seed):
        self.images, self.change, self.finish = images, change, finish
        self.repeats, self.seed = repeats, seed
        self.batch_size = min(batch_size, repeats * len(images))
        self.steps_per_epoch = len(images) * repeats // self.batch_size

    def __str__(self) -> str:
        return f"{self.images}\n{self.steps_per_epoch:,} batches of {self.batch_size}"

    def stream(self, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        """The batches from (epoch, step) on, without end: a run continues here, exactly."""
        orders = tf.data.Dataset.from_generator(
            lambda: self._orders(epoch, step), output_signature=_ORDER
        )
        return (
            orders.unbatch()
            .map(as_it_is(self.change), num_parallel_calls=tf.data.AUTOTUNE)
            .batch(self.batch_size, drop_remainder=True)
            .map(as_it_is(self.finish))
            .apply(untuned)
            .prefetch(2)
        )

    def _orders(self, epoch, step):
        """For each batch its images, their labels and a seed for each."""
        size = self.batch_size
        for number in range(epoch, sys.maxsize):
            rng = np.random.default_rng([self.seed, number])
            rows = np.repeat(rng.permutation(len(self.images)), self.repeats)
            seeds = rng.integers(1, 2**31, (len(rows), 2), dtype="int32")
            for i in range(step, self.steps_per_epoch):
                batch = rows[i * size : (i + 1) * size]
                encoded = np.array([self.images.items[row] for row in batch], object)
                own = seeds[i * size : (i + 1) * size]
                yield encoded, self.images.labels[batch], own
            step = 0
