"""From the bytes of a picture to what a model sees: the same in training and in service.

Bytes are decoded as they are stored, transparent pixels over white: whoever reads files, for
training or for a command, turns and converts them before, by `pictures.py`.
"""

import numpy as np
import tensorflow as tf

from tfx_transformer.graph import untuned

NORMALISATION = {  # mean and deviation of the three channels, of pixels from 0 to 1
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}

LONGEST = 8  # times the shorter side
PNG = b"\x89PNG"  # its first bytes


def decode(encoded) -> tf.Tensor:
    """Bytes of a JPEG, PNG, GIF or BMP file → (h, w, 3), float32, from 0 to 255."""

    def over_white():
        image = tf.cast(tf.io.decode_png(encoded, channels=4), tf.float32)
        colour, opacity = image[..., :3], image[..., 3:] / 255
        return colour * opacity + 255 * (1 - opacity)

    def opaque():
        image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        return tf.cast(image, tf.float32)

    image = tf.cond(tf.strings.substr(encoded, 0, len(PNG)) == PNG, over_white, opaque)
    image.set_shape([None, None, 3])
    return image


def centre_crop(image, size: int, crop_ratio: float = 1.0) -> tf.Tensor:
    """(h, w, 3) → the middle (size, size, 3), as high as `crop_ratio` of the shorter side.

    Of a very long picture only the middle is resized: all of it might not fit into memory.
    """
    shape = tf.shape(image)[:2]
    spare = tf.maximum(shape - LONGEST * tf.reduce_min(shape), 0) // 2  # on each side
    image = tf.slice(image, [spare[0], spare[1], 0], [*tf.unstack(shape - 2 * spare), 3])
    shape = tf.shape(image)[:2]
    height, width = tf.unstack(tf.cast(shape, tf.float32))
    scale = size / crop_ratio / tf.minimum(height, width)
    resized = tf.cast(tf.round(tf.stack([height, width]) * scale), tf.int32)
    resized = tf.maximum(resized, size)
    image = tf.cond(
        tf.reduce_all(shape == resized),
        lambda: image,
        lambda: tf.image.resize(image, resized, "bicubic", antialias=True),
    )
    top, left = tf.unstack((resized - size) // 2)
    image = tf.slice(image, [top, left, 0], [size, size, 3])
    return tf.clip_by_value(image, 0.0, 255.0)


def decode_batch(encoded, size: int, crop_ratio: float = 1.0) -> tuple[tf.Tensor, tf.Tensor]:
    """Files (B,) → images (B, size, size, 3) from 0 to 255, and which of them are readable, (B,).

    A decoder fails for a whole batch; a data set inside the graph may drop what fails.
    """
    count = tf.size(encoded, tf.int64)

    def prepare(place, encoded):
        return place, centre_crop(decode(encoded), size, crop_ratio)

    nothing = tf.data.Dataset.from_tensors((count, tf.zeros([size, size, 3])))
    files = tf.data.Dataset.from_tensor_slices(encoded).enumerate()
    files = files.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()
    batch = files.concatenate(nothing).batch(count + 1).apply(untuned)
    places, images = batch.get_single_element()
    shape = tf.stack([count + 1, size, size, 3])
    images = tf.scatter_nd(places[:, None], images, shape)[:-1]
    is_readable = tf.scatter_nd(places[:, None], tf.ones_like(places), [count + 1])[:-1] > 0
    images.set_shape([None, size, size, 3])
    return images, is_readable


def normalise(images, normalisation: str = "half") -> tf.Tensor:
    """Pixels from 0 to 255 → with a mean of about 0 and a deviation of about 1."""
    mean, deviation = (255 * np.array(x, "float32") for x in NORMALISATION[normalisation])
    return (images - mean) / deviation
