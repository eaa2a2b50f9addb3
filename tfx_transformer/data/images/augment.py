"""Image augmentation. The seed, two integers, is the only source of randomness.

An image is (h, w, 3), in 0 … 255. Only `mix` takes a whole batch.
"""

import math

import tensorflow as tf

from tfx_transformer.data.images.options import Augmentation, ImageOptions
from tfx_transformer.data.images.pixels import GRAY, decode, resize_and_crop
from tfx_transformer.data.images.resize import resize_part

MAX_MAGNITUDE = 10.0  # of RandAugment


def read_augmented(encoded, seed, size: int, augmentation: Augmentation, options: ImageOptions):
    """The bytes of an image file → (size, size, 3), with all changes of single images."""
    image = decode(encoded, options.max_pixels)
    return augment_image(image, seed, size, augmentation, options.crop_ratio, options.resize)


def augment_image(
    image, seed, size: int, options: Augmentation, crop_ratio: float = 1.0, resize: str = "crop"
):
    """(h, w, 3) → (size, size, 3), with all changes of single images.

    `crop_ratio` and `resize` are those of `resize_and_crop`. A random part is one of the square
    that `resize` makes; with "crop" it is one of the whole image.
    """
    crop_seed, flip_seed, rand_seed, erase_seed = tf.unstack(tf.random.split(seed, 4))
    if options.crop == "resized":
        if resize != "crop":
            image = resize_and_crop(image, 2 * size, resize=resize)
        image = resized_crop(image, crop_seed, size, options.min_area)
    else:
        image = resize_and_crop(image, size, crop_ratio, resize)
    if options.crop == "pad":
        image = padded_crop(image, crop_seed, options.padding)
    if options.flip:
        image = flip(image, flip_seed)
    if options.rand_augment:
        image = rand_augment(image, rand_seed, options.rand_augment, options.magnitude)
    if options.erase:
        image = erase(image, erase_seed, options.erase)
    return image


def uniform(seed, low=0.0, high=1.0, shape=()):
    return tf.random.stateless_uniform(shape, seed, low, high)


# crops


def resized_crop(image, seed, size: int, min_area: float = 0.08):
    """A random part of the image, resized to (size, size) (arXiv:1409.4842).

    Its area is a fraction of `min_area` to 1, its aspect ratio 3:4 to 4:3, clipped to the image.
    """
    one, two, three, four = tf.unstack(tf.random.split(seed, 4))
    height, width = tf.unstack(tf.cast(tf.shape(image)[:2], tf.float32))
    area = height * width * uniform(one, min_area, 1.0)
    ratio = tf.exp(uniform(two, math.log(3 / 4), math.log(4 / 3)))
    crop_height = tf.clip_by_value(tf.round(tf.sqrt(area / ratio)), 1.0, height)
    crop_width = tf.clip_by_value(tf.round(tf.sqrt(area * ratio)), 1.0, width)
    top = tf.floor(uniform(three) * (height - crop_height + 1))
    left = tf.floor(uniform(four) * (width - crop_width + 1))
    top, left, crop_height, crop_width = (
        tf.cast(x, tf.int32) for x in (top, left, crop_height, crop_width)
    )
    part = tf.slice(image, [top, left, 0], [crop_height, crop_width, 3])
    return tf.ensure_shape(resize_part(part, (size, size), "bilinear"), [size, size, 3])


def padded_crop(image, seed, padding: float = 0.125):
    """The image, shifted by up to the fraction `padding` of its size and filled with black."""
    size = image.shape[0]
    width = round(padding * size)
    padded = tf.pad(image, [[width, width], [width, width], [0, 0]])
    return tf.image.stateless_random_crop(padded, [size, size, 3], seed)


def flip(image, seed):
    """Flips the image left to right with a probability of 1/2."""
    return tf.image.stateless_random_flip_left_right(image, seed)


def erase(image, seed, rate: float):
    """With probability `rate`, 2 % to a third of the image becomes noise (arXiv:1708.04896)."""
    one, two, three, four, five = tf.unstack(tf.random.split(seed, 5))
    size = image.shape[0]
    area, ratio = uniform(one, 0.02, 1 / 3), tf.exp(uniform(two, math.log(0.3), math.log(1 / 0.3)))
    sides = tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)])
    box = random_box(tf.minimum(sides, 1.0), three, size)
    noise = tf.random.stateless_normal(tf.shape(image), four, 127.5, 64.0)
    is_erased = box[..., None] & (uniform(five) < rate)
    return tf.where(is_erased, tf.clip_by_value(noise, 0.0, 255.0), image)


def random_box(sides, seed, size: int):
    """A random rectangle as a boolean mask (size, size), with sides (2,) in fractions of it."""
    lengths = tf.round(sides * size)
    starts = tf.floor(uniform(seed, shape=(2,)) * (size - lengths + 1))
    positions = tf.range(size, dtype=tf.float32)
    inside = [
        (positions >= start) & (positions < start + length)
        for start, length in zip(tf.unstack(starts), tf.unstack(lengths), strict=True)
    ]
    return inside[0][:, None] & inside[1][None, :]


# RandAugment


def rand_augment(image, seed, count: int, magnitude: float):
    """Applies `count` operations, each sampled from OPERATIONS (arXiv:1909.13719).

    The magnitude goes from 0, where most operations change nothing, to 10.
    """
    branches = list(OPERATIONS.values())
    for operation_seed in tf.unstack(tf.random.split(seed, count)):
        index_seed, sign_seed = tf.unstack(tf.random.split(operation_seed))
        number = tf.random.stateless_uniform((), index_seed, 0, len(branches), tf.int32)
        level = magnitude / MAX_MAGNITUDE * tf.where(uniform(sign_seed) < 0.5, -1.0, 1.0)
        changed = [lambda op=op, x=image, level=level: op(x, level) for op in branches]
        image = tf.ensure_shape(tf.switch_case(number, changed), image.shape)
    return image


def transform(image, matrix):
    """Affine transform: pixel (x, y) is read from (a·x + b·y + c, d·x + e·y + f), where the center
    is (0, 0) and c and f are in units of half the image."""
    a, b, c, d, e, f = matrix
    half = image.shape[0] / 2
    center = (image.shape[0] - 1) / 2
    right = c * half + center - a * center - b * center
    down = f * half + center - d * center - e * center
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=tf.stack([a, b, right, d, e, down, 0.0, 0.0])[None],
        output_shape=image.shape[:2],
        fill_value=GRAY,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )[0]


def rotate(image, level):
    angle = level * math.pi / 6
    return transform(image, (tf.cos(angle), -tf.sin(angle), 0.0, tf.sin(angle), tf.cos(angle), 0.0))


def blend(image, other, level):
    """Extrapolates away from `other`; a negative level interpolates towards it."""
    return tf.clip_by_value(image + 0.9 * level * (image - other), 0.0, 255.0)


def smooth(image):
    kernel = tf.constant([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13
    kernel = tf.tile(kernel[:, :, None, None], [1, 1, 3, 1])
    padded = tf.pad(image, [[1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    return tf.nn.depthwise_conv2d(padded[None], kernel, [1, 1, 1, 1], "VALID")[0]


def autocontrast(image, level):
    """Stretches each channel to 0 … 255."""
    low, high = (reduce(image, axis=[0, 1]) for reduce in (tf.reduce_min, tf.reduce_max))
    stretched = (image - low) * 255 / tf.maximum(high - low, 1.0)
    return tf.where(high > low, stretched, image)


def equalize(image, level):
    """Equalizes the histogram of each channel."""
    pixels = tf.cast(tf.reshape(image, [-1, 3]), tf.int32)  # (P, 3)
    channels = []
    for channel in tf.unstack(pixels, axis=1):
        counts = tf.math.bincount(channel, minlength=256, maxlength=256)
        ranks = tf.cast(tf.cumsum(counts) - counts // 2, tf.float32)
        channels.append(tf.gather(ranks * 255 / tf.cast(tf.size(channel), tf.float32), channel))
    return tf.reshape(tf.stack(channels, axis=1), tf.shape(image))


def posterize(image, level):
    """Reduces the bits of each channel, to 4 at the highest level."""
    step = 2.0 ** tf.round(4 * tf.abs(level))
    return tf.floor(image / step) * step


def solarize(image, level):
    """Inverts the pixels above a threshold."""
    return tf.where(image < 256 * (1 - tf.abs(level)), image, 255 - image)


gray = tf.image.rgb_to_grayscale
OPERATIONS = {
    "identity": lambda image, level: image,
    "autocontrast": autocontrast,
    "equalize": equalize,
    "rotate": rotate,
    "posterize": posterize,
    "solarize": solarize,
    "color": lambda image, level: blend(image, gray(image), level),
    "contrast": lambda image, level: blend(image, tf.reduce_mean(gray(image)), level),
    "brightness": lambda image, level: blend(image, 0.0, level),
    "sharpness": lambda image, level: blend(image, smooth(image), level),
    "shear_x": lambda image, level: transform(image, (1.0, 0.3 * level, 0.0, 0.0, 1.0, 0.0)),
    "shear_y": lambda image, level: transform(image, (1.0, 0.0, 0.0, 0.3 * level, 1.0, 0.0)),
    "translate_x": lambda image, level: transform(image, (1.0, 0.0, 0.6 * level, 0.0, 1.0, 0.0)),
    "translate_y": lambda image, level: transform(image, (1.0, 0.0, 0.0, 0.0, 1.0, 0.6 * level)),
}


# mixing the images of a batch


def mix(images, labels, seed, mixup: float, cutmix: float):
    """Mixes images (B, s, s, 3) and label distributions (B, C) with the reversed batch.

    mixup (arXiv:1710.09412) interpolates two images, CutMix (arXiv:1905.04899) pastes a rectangle
    of one into the other. The weight of the first image and label is sampled from Beta(a, a), with
    the value of the argument as a. If both are on, one of them is chosen at random.
    """
    if mixup == cutmix == 0:
        return images, labels
    choice_seed, seed = tf.unstack(tf.random.split(seed))
    if mixup > 0 and cutmix > 0:
        return tf.cond(
            uniform(choice_seed) < 0.5,
            lambda: mix_up(images, labels, seed, mixup),
            lambda: cut_mix(images, labels, seed, cutmix),
        )
    return mix_up(images, labels, seed, mixup) if mixup else cut_mix(images, labels, seed, cutmix)


def mix_up(images, labels, seed, alpha: float):
    weight = beta(seed, alpha)
    return tuple(weight * x + (1 - weight) * tf.reverse(x, [0]) for x in (images, labels))


def cut_mix(images, labels, seed, alpha: float):
    one, two = tf.unstack(tf.random.split(seed))
    side = tf.sqrt(1 - beta(one, alpha))
    box = random_box(tf.stack([side, side]), two, images.shape[1])
    weight = 1 - tf.reduce_mean(tf.cast(box, tf.float32))
    images = tf.where(box[None, :, :, None], tf.reverse(images, [0]), images)
    return images, weight * labels + (1 - weight) * tf.reverse(labels, [0])


def beta(seed, alpha: float):
    """A sample of Beta(alpha, alpha)."""
    one, two = tf.unstack(tf.random.stateless_gamma((2,), seed, alpha))
    return one / (one + two)
