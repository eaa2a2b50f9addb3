"""From the bytes of an image to the input of a model, the same in training and in serving.

Images are rotated as EXIF says, and transparent pixels are blended with white. A large image takes
less than 8 bytes a pixel: it stays uint8 until it is resized, and is halved while it is decoded.
"""

import functools

import numpy as np
import tensorflow as tf

from tfx_transformer.data.images.header import (
    BMP,
    GIF,
    JPEG,
    PNG,
    WEBP,
    has_transparency,
    read_header,
    substring,
)
from tfx_transformer.data.images.options import MAX_PIXELS
from tfx_transformer.data.images.resize import resize_part
from tfx_transformer.runtime import graph, without_autotune

NORMALIZATION = {  # mean and standard deviation of the channels, for pixels in 0 … 1
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}

MAX_ASPECT_RATIO = 8
HALVED = 2**22  # of images with more pixels, JPEG and PNG files are decoded to half the size
PART = 2**16  # pixels that are blended with white at a time
GRAY = 128.0  # fills the area outside of an image


def decode(encoded, max_pixels: int = MAX_PIXELS) -> tf.Tensor:
    """Bytes of a JPEG, PNG, GIF, BMP or WebP file → the upright image (h, w, 3), uint8."""
    return _decode()(encoded, tf.constant(max_pixels, tf.int64))


@functools.cache
def _decode():
    """`decode` as a function that is traced once: it is large."""
    return graph(_decode_file, tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64))


def _decode_file(encoded, max_pixels):
    header = read_header(encoded)  # inline: a second worker's tf.data would not find it elsewhere
    pixels = header.height * header.width
    checks = [
        tf.debugging.assert_positive(pixels, "not an image"),
        tf.debugging.assert_less_equal(pixels, max_pixels, "too many pixels"),
    ]
    with tf.control_dependencies(checks):
        encoded = tf.identity(encoded)

    is_large = pixels > HALVED

    def first_image(data):
        return tf.io.decode_image(data, channels=0, expand_animations=False)

    branches = {
        JPEG: lambda: tf.cond(
            is_large,
            lambda: tf.io.decode_jpeg(encoded, channels=3, ratio=2),
            lambda: tf.io.decode_jpeg(encoded, channels=3),
        ),
        PNG: lambda: over_white(decode_png(encoded), is_large),
        GIF: lambda: first_image(substring(encoded, 0, header.end) + b";"),
        BMP: lambda: tf.io.decode_bmp(encoded, channels=3),
        WEBP: lambda: over_white(first_image(encoded), is_large),
    }
    image = tf.switch_case(header.format, branches)
    image = turn_upright(image, header.orientation)
    image.set_shape([None, None, 3])
    return image


def decode_png(encoded) -> tf.Tensor:
    """(h, w, 4), or (h, w, 3) if it is opaque: a fourth channel would then be wrong."""
    return tf.cond(
        has_transparency(encoded),
        lambda: tf.io.decode_png(encoded, channels=4),
        lambda: tf.io.decode_png(encoded, channels=3),
    )


def stored_orientation(encoded) -> int:
    """The EXIF orientation of a file, 1 to 8."""
    return int(_read_header()(encoded).orientation)


@functools.cache
def _read_header():
    return graph(read_header, tf.TensorSpec([], tf.string))


def over_white(image, is_halved) -> tf.Tensor:
    """Blends (h, w, 4) with white → (h, w, 3), or half as high and wide, a few rows at a time.

    Without a fourth channel the image is opaque.
    """
    height, width, _ = tf.unstack(tf.shape(image))
    rows = 2 * tf.maximum(PART // (2 * width), 1)
    count = (height + rows - 1) // rows

    def blend(part):
        part = tf.cast(part, tf.float32)
        color, opacity = part[:, :, :3], part[:, :, 3:] / 255
        color = tf.cond(tf.size(opacity) == 0, lambda: color, lambda: 255 - (255 - color) * opacity)
        return tf.cond(
            is_halved, lambda: tf.nn.avg_pool2d(color[None], 2, 2, "SAME")[0], lambda: color
        )

    def add_part(i, parts):
        part = blend(image[i * rows : (i + 1) * rows])
        return i + 1, parts.write(i, tf.cast(tf.round(part), tf.uint8))

    parts = tf.TensorArray(tf.uint8, count, element_shape=[None, None, 3], infer_shape=False)
    return tf.while_loop(lambda i, _: i < count, add_part, (0, parts))[1].concat()


def turn_upright(image, orientation) -> tf.Tensor:
    """Undoes an EXIF orientation, 1 to 8: from 5 on the image is transposed, then flipped."""
    image = tf.cond(orientation > 4, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    flips = [lambda axes=axes: tf.reverse(image, axes) for axes in ([1], [0, 1], [0])]
    return tf.switch_case(tf.cast((orientation - 1) % 4, tf.int32), [lambda: image, *flips])


def resize_and_crop(image, size: int, crop_ratio: float = 1.0, resize: str = "crop") -> tf.Tensor:
    """Makes a square of (h, w, 3), resizes it and takes its center: (size, size, 3), float32.

    Of a very long image only the middle is resized, to limit the memory.

    Args:
        image: pixels in 0 … 255 of any type.
        size: height and width of the result.
        crop_ratio: the part of the square's side that is kept.
        resize: "crop" makes the square by cutting the longer side, "squash" by changing the aspect
            ratio, "pad" by adding gray to the shorter side.
    """
    shape = tf.shape(image)[:2]
    spare = tf.maximum(shape - MAX_ASPECT_RATIO * tf.reduce_min(shape), 0) // 2  # on each side
    image = tf.slice(image, [spare[0], spare[1], 0], [*tf.unstack(shape - 2 * spare), 3])
    shape = tf.shape(image)[:2]
    sides = tf.cast(shape, tf.float32)
    reference = {"crop": tf.reduce_min(sides), "squash": sides, "pad": tf.reduce_max(sides)}[resize]
    resized = tf.cast(tf.round(size / crop_ratio * sides / reference), tf.int32)
    resized = tf.maximum(resized, 1 if resize == "pad" else size)
    count = tf.minimum(resized, size)  # of the middle, which alone is computed
    start = (resized - count) // 2
    image = tf.cond(
        tf.reduce_all(shape == resized),
        lambda: tf.cast(
            tf.slice(image, [*tf.unstack(start), 0], [*tf.unstack(count), 3]), tf.float32
        ),
        lambda: resize_part(image, resized, "bicubic", start, count),
    )
    before = (size - count) // 2
    paddings = tf.stack([before, size - count - before], axis=1)
    image = tf.pad(image, tf.pad(paddings, [[0, 1], [0, 0]]), constant_values=GRAY)
    image = tf.ensure_shape(image, [size, size, 3])
    return tf.clip_by_value(image, 0.0, 255.0)


def decode_batch(
    encoded,
    size: int,
    crop_ratio: float = 1.0,
    resize: str = "crop",
    max_pixels: int = MAX_PIXELS,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Files (B,) → images (B, size, size, 3) in 0 … 255, and whether each is readable, (B,).

    An error of the decoder fails a whole batch; a dataset inside the graph can ignore errors.
    """
    count = tf.size(encoded, tf.int64)

    def prepare(index, encoded):
        return index, resize_and_crop(decode(encoded, max_pixels), size, crop_ratio, resize)

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
