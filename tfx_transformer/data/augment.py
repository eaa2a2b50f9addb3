"""Changes of training images. All randomness comes from the seed that is passed, two integers.

An image is (h, w, 3), float32, from 0 to 255. What changes single images takes one of them, what
mixes images takes a whole batch.
"""

import math

import tensorflow as tf

LEVELS = 10.0  # the largest magnitude of RandAugment
GREY = 128.0  # what comes in from outside of an image


def uniform(seed, low=0.0, high=1.0, shape=()):
    return tf.random.stateless_uniform(shape, seed, low, high)


# crops


def resized_crop(image, seed, size: int, min_area: float = 0.08):
    """A random part of the image, resized to (size, size) (arXiv:1409.4842).

    Of `min_area` to all of its area, its sides in the ratio of 3:4 to 4:3; a part that does not
    fit is cut to fit.
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
    return tf.image.resize(part, [size, size], antialias=True)


def padded_crop(image, seed, padding: float = 0.125):
    """The image shifted by up to `padding` of its size; black comes in."""
    size = image.shape[0]
    width = round(padding * size)
    padded = tf.pad(image, [[width, width], [width, width], [0, 0]])
    return tf.image.stateless_random_crop(padded, [size, size, 3], seed)


def flip(image, seed):
    """Left to right, every second time."""
    return tf.image.stateless_random_flip_left_right(image, seed)


def erase(image, seed, rate: float):
    """At a rate, a rectangle of 2 % to a third of the image becomes noise (arXiv:1708.04896)."""
    one, two, three, four, five = tf.unstack(tf.random.split(seed, 5))
    size = image.shape[0]
    area, ratio = uniform(one, 0.02, 1 / 3), tf.exp(uniform(two, math.log(0.3), math.log(1 / 0.3)))
    sides = tf.stack([tf.sqrt(area / ratio), tf.sqrt(area * ratio)])
    box = random_box(tf.minimum(sides, 1.0), three, size)
    noise = tf.random.stateless_normal(tf.shape(image), four, 127.5, 64.0)
    is_erased = box[..., None] & (uniform(five) < rate)
    return tf.where(is_erased, tf.clip_by_value(noise, 0.0, 255.0), image)


def random_box(sides, seed, size: int):
    """A rectangle with sides (2,) in parts of the image, somewhere inside: boolean (size, size)."""
    lengths = tf.round(sides * size)
    starts = tf.floor(uniform(seed, shape=(2,)) * (size - lengths + 1))
    place = tf.range(size, dtype=tf.float32)
    inside = [
        (place >= start) & (place < start + length)
        for start, length in zip(tf.unstack(starts), tf.unstack(lengths), strict=True)
    ]
    return inside[0][:, None] & inside[1][None, :]


# RandAugment


def rand_augment(image, seed, count: int, magnitude: float):
    """`count` operations in succession, each drawn from OPERATIONS (arXiv:1909.13719).

    Args:
        image: (size, size, 3).
        seed: of all draws.
        count: how many.
        magnitude: from 0, where most do nothing, to 10.
    """
    branches = list(OPERATIONS.values())
    for own in tf.unstack(tf.random.split(seed, count)):
        which, side = tf.unstack(tf.random.split(own))
        number = tf.random.stateless_uniform((), which, 0, len(branches), tf.int32)
        level = magnitude / LEVELS * tf.where(uniform(side) < 0.5, -1.0, 1.0)
        changed = [lambda op=op, x=image, level=level: op(x, level) for op in branches]
        image = tf.ensure_shape(tf.switch_case(number, changed), image.shape)
    return image


def transform(image, matrix):
    """Each pixel (x, y) from the place a·x + b·y + c, d·x + e·y + f, in halves of the image from
    its centre."""
    a, b, c, d, e, f = matrix
    half = image.shape[0] / 2
    centre = (image.shape[0] - 1) / 2
    right = c * half + centre - a * centre - b * centre
    down = f * half + centre - d * centre - e * centre
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=image[None],
        transforms=tf.stack([a, b, right, d, e, down, 0.0, 0.0])[None],
        output_shape=image.shape[:2],
        fill_value=GREY,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )[0]


def rotate(image, level):
    angle = level * math.pi / 6
    return transform(image, (tf.cos(angle), -tf.sin(angle), 0.0, tf.sin(angle), tf.cos(angle), 0.0))


def blend(image, other, level):
    """Away from `other`, or, at levels below zero, towards it."""
    return tf.clip_by_value(image + 0.9 * level * (image - other), 0.0, 255.0)


def grey(image):
    return tf.image.rgb_to_grayscale(image)


def smooth(image):
    kernel = tf.constant([[1.0, 1.0, 1.0], [1.0, 5.0, 1.0], [1.0, 1.0, 1.0]]) / 13
    kernel = tf.tile(kernel[:, :, None, None], [1, 1, 3, 1])
    padded = tf.pad(image, [[1, 1], [1, 1], [0, 0]], "SYMMETRIC")
    return tf.nn.depthwise_conv2d(padded[None], kernel, [1, 1, 1, 1], "VALID")[0]


def autocontrast(image, level):
    """Each channel stretched to 0 … 255."""
    low, high = (reduce(image, axis=[0, 1]) for reduce in (tf.reduce_min, tf.reduce_max))
    stretched = (image - low) * 255 / tf.maximum(high - low, 1.0)
    return tf.where(high > low, stretched, image)


def equalize(image, level):
    """Each channel with a flat histogram."""
    pixels = tf.cast(tf.reshape(image, [-1, 3]), tf.int32)  # (P, 3)
    channels = []
    for channel in tf.unstack(pixels, axis=1):
        counts = tf.math.bincount(channel, minlength=256, maxlength=256)
        ranks = tf.cast(tf.cumsum(counts) - counts // 2, tf.float32)
        channels.append(tf.gather(ranks * 255 / tf.cast(tf.size(channel), tf.float32), channel))
    return tf.reshape(tf.stack(channels, axis=1), tf.shape(image))


def posterize(image, level):
    """With fewer bits, 4 at the highest level."""
    step = 2.0 ** tf.round(4 * tf.abs(level))
    return tf.floor(image / step) * step


def solarize(image, level):
    """Inverted where brighter than a threshold."""
    return tf.where(image < 256 * (1 - tf.abs(level)), image, 255 - image)


OPERATIONS = {
    "identity": lambda image, level: image,
    "autocontrast": autocontrast,
    "equalize": equalize,
    "rotate": rotate,
    "posterize": posterize,
    "solarize": solarize,
    "color": lambda image, level: blend(image, grey(image), level),
    "contrast": lambda image, level: blend(image, tf.reduce_mean(grey(image)), level),
    "brightness": lambda image, level: blend(image, 0.0, level),
    "sharpness": lambda image, level: blend(image, smooth(image), level),
    "shear_x": lambda image, level: transform(image, (1.0, 0.3 * level, 0.0, 0.0, 1.0, 0.0)),
    "shear_y": lambda image, level: transform(image, (1.0, 0.0, 0.0, 0.3 * level, 1.0, 0.0)),
    "translate_x": lambda image, level: transform(image, (1.0, 0.0, 0.6 * level, 0.0, 1.0, 0.0)),
    "translate_y": lambda image, level: transform(image, (1.0, 0.0, 0.0, 0.0, 1.0, 0.6 * level)),
}


# mixtures of a batch


def mix(images, labels, seed, mixup: float, cutmix: float):
    """Images (B, s, s, 3) and label distributions (B, C), each mixed with another of the batch.

    mixup (arXiv:1710.09412) adds up two images, cutmix (arXiv:1905.04899) puts a rectangle of one
    into the other. The share of the first is drawn from Beta(a, a), a being the argument's value,
    and the labels are mixed in the same share. Where both are asked for, one of them is drawn.
    """
    if mixup == cutmix == 0:
        return images, labels
    which, seed = tf.unstack(tf.random.split(seed))
    if mixup > 0 and cutmix > 0:
        return tf.cond(
            uniform(which) < 0.5,
            lambda: mix_up(images, labels, seed, mixup),
            lambda: cut_mix(images, labels, seed, cutmix),
        )
    if mixup > 0:
        return mix_up(images, labels, seed, mixup)
    return cut_mix(images, labels, seed, cutmix)


def mix_up(images, labels, seed, alpha: float):
    share = beta(seed, alpha)
    mixed = (share * x + (1 - share) * tf.reverse(x, [0]) for x in (images, labels))
    return tuple(mixed)


def cut_mix(images, labels, seed, alpha: float):
    one, two = tf.unstack(tf.random.split(seed))
    side = tf.sqrt(1 - beta(one, alpha))
    box = random_box(tf.stack([side, side]), two, images.shape[1])
    share = 1 - tf.reduce_mean(tf.cast(box, tf.float32))
    images = tf.where(box[None, :, :, None], tf.reverse(images, [0]), images)
    return images, share * labels + (1 - share) * tf.reverse(labels, [0])


def beta(seed, alpha: float):
    """A draw of Beta(alpha, alpha)."""
    one, two = tf.unstack(tf.random.stateless_gamma((2,), seed, alpha))
    return one / (one + two)
