"""Decoding, resizing and normalization of images."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images.pixels import (
    NORMALIZATION,
    decode,
    decode_batch,
    normalize,
    resize_and_crop,
)


def image(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype("float32")


def test_an_image_of_the_right_size_is_unchanged():
    np.testing.assert_array_equal(resize_and_crop(image(9, 9), 9), image(9, 9))


@pytest.mark.parametrize("height, width", [(9, 15), (14, 9)])
def test_the_middle_of_the_longer_side_is_kept(height, width):
    top, left = (height - 9) // 2, (width - 9) // 2
    expected = image(height, width)[top : top + 9, left : left + 9]
    np.testing.assert_array_equal(resize_and_crop(image(height, width), 9), expected)


def test_the_crop_ratio_is_the_fraction_of_the_shorter_side():
    framed = np.zeros((20, 30, 3), "float32")
    framed[4:16, 9:21] = 200  # the middle 12 of 20 pixels
    assert resize_and_crop(framed, 12, 0.6).numpy().min() == 200
    assert resize_and_crop(framed, 12, 0.9).numpy().min() < 100


@pytest.mark.parametrize("height, width", [(1, 1), (3, 50), (200, 7)])
def test_any_size_gives_the_same_size(height, width):
    cropped = resize_and_crop(image(height, width), 8, 0.875).numpy()
    assert cropped.shape == (8, 8, 3) and 0 <= cropped.min() <= cropped.max() <= 255


@pytest.mark.parametrize("name", NORMALIZATION)
def test_normalization_subtracts_the_mean_and_divides_by_the_deviation(name):
    mean, deviation = NORMALIZATION[name]
    normalized = normalize(tf.constant(image(2, 3)), name).numpy()
    for y, x, c in np.ndindex(2, 3, 3):
        expected = (image(2, 3)[y, x, c] / 255 - mean[c]) / deviation[c]
        assert normalized[y, x, c] == pytest.approx(expected, abs=1e-5)


def test_bytes_are_decoded_to_pixels():
    pixels = image(5, 7)
    decoded = decode(tf.io.encode_png(pixels.astype("uint8")))
    np.testing.assert_array_equal(decoded, pixels)


def test_transparent_pixels_are_blended_with_white():
    pixels = np.array([[[10, 100, 200, 0], [10, 100, 200, 255], [10, 100, 200, 51]]], "uint8")
    expected = [[[255, 255, 255], [10, 100, 200], [206, 224, 244]]]
    np.testing.assert_allclose(decode(tf.io.encode_png(pixels)), expected, atol=1e-4)


def png(height, width):
    return tf.io.encode_png(image(height, width).astype("uint8")).numpy()


def test_each_file_of_a_batch_is_decoded_as_alone_and_keeps_its_index():
    good = [png(9, 30), png(17, 8), png(11, 11)]
    files = [b"", good[0], good[1], good[0][:40], good[2], b"GIF89a"]
    images, is_readable = decode_batch(tf.constant(files), 8, 0.9)
    assert is_readable.numpy().tolist() == [False, True, True, False, True, False]
    assert images.shape == (6, 8, 8, 3)
    for index, file in zip([1, 2, 4], good, strict=True):
        np.testing.assert_allclose(images[index], resize_and_crop(decode(file), 8, 0.9), atol=1e-3)
    assert not images.numpy()[[0, 3, 5]].any()


@pytest.mark.parametrize("files", [[], [b"junk", b""]])
def test_a_batch_without_readable_files_is_zeros(files):
    images, is_readable = decode_batch(tf.constant(files, tf.string), 7)
    assert images.shape == (len(files), 7, 7, 3) and not is_readable.numpy().any()
    assert not images.numpy().any()


def test_a_batch_of_any_length_is_decoded_inside_a_graph():
    read = tf.function(
        lambda files: decode_batch(files, 8), [tf.TensorSpec([None], tf.string)], autograph=False
    )
    assert read.get_concrete_function().structured_outputs[0].shape.as_list() == [None, 8, 8, 3]
    for count in (1, 3):
        images, is_readable = read(tf.constant([png(8, 8)] * count))
        np.testing.assert_array_equal(images, np.repeat(image(8, 8)[None], count, axis=0))
        assert is_readable.numpy().tolist() == [True] * count


def test_of_a_very_long_image_only_the_middle_is_resized():
    """The whole image would be resized to 16 × 320,000 pixels."""
    strip = np.zeros((1, 20_000, 3), "float32")
    strip[:, 9_996:10_004] = 200.0
    middle = resize_and_crop(tf.constant(strip), 16)
    np.testing.assert_allclose(middle, np.full((16, 16, 3), 200), atol=1e-3)
    tall = resize_and_crop(tf.constant(strip.transpose(1, 0, 2)), 16)
    np.testing.assert_allclose(tall, middle, atol=1e-3)
