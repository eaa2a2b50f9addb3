"""From the bytes of an image to the input of a model, the same in training and in serving.

Transparent pixels are blended with white. EXIF orientation and other file formats are handled
before, by `read_images`.
"""

import numpy as np
import tensorflow as tf

from tfx_transformer.runtime import without_autotune

NORMALIZATION = {  # mean and standard deviation of the channels, for pixels in 0 … 1
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}

MAX_ASPECT_RATIO = 8
PNG = b"\x89PNG"  # the first bytes of a file


def decode(encoded) -> tf.Tensor:
    """Bytes of a JPEG, PNG, GIF or BMP file → (h, w, 3), float32, in 0 … 255."""

    def over_white():
        image = tf.cast(tf.io.decode_png(encoded, channels=4), tf.float32)
        color, opacity = image[..., :3], image[..., 3:] / 255
        return color * opacity + 255 * (1 - opacity)

    def opaque():
        image = tf.io.decode_image(encoded, channels=3, expand_animations=False)
        return tf.cast(image, tf.float32)

    image = tf.cond(tf.strings.substr(encoded, 0, len(PNG)) == PNG, over_white, opaque)
    image.set_shape([None, None, 3])
    return image


def resize_and_crop(image, size: int, crop_ratio: float = 1.0) -> tf.Tensor:
    """Resizes (h, w, 3) and takes the center crop (size, size, 3).

    The crop has the fraction `crop_ratio` of the shorter side. Of a very long image only the middle
    is resized, to limit the memory.
    """
    shape = tf.shape(image)[:2]
    spare = tf.maximum(shape - MAX_ASPECT_RATIO * tf.reduce_min(shape), 0) // 2  # on each side
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
    """Files (B,) → images (B, size, size, 3) in 0 … 255, and whether each is readable, (B,).

    An error of the decoder fails a whole batch; a dataset inside the graph can ignore errors.
    """
    count = tf.size(encoded, tf.int64)

    def prepare(index, encoded):
        return index, resize_and_crop(decode(encoded), size, crop_ratio)

    end = tf.data.Dataset.from_tensors((count, tf.zeros([size, size, 3])))
    files = tf.data.Dataset.from_tensor_slices(encoded).enumerate()
    files = files.map(prepare, num_parallel_calls=tf.data.AUTOTUNE).ignore_errors()
    batch = files.concatenate(end).batch(count + 1).apply(without_autotune)
    indices, images = batch.get_single_element()
    shape = tf.stack([count + 1, size, size, 3])
    images = tf.scatter_nd(indices[:, None], images, shape)[:-1]
    is_readable = tf.scatter_nd(indices[:, None], tf.ones_like(indices), [count + 1])[:-1] > 0
    images.set_shape([None, size, size, 3])
    return images, is_readable


def normalize(images, normalization: str = "half") -> tf.Tensor:
    """Pixels in 0 … 255 → mean of about 0 and standard deviation of about 1."""
    mean, deviation = (255 * np.array(x, "float32") for x in NORMALIZATION[normalization])
    return (images - mean) / deviation
