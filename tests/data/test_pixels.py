import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.pixels import (
    NORMALISATION,
    centre_crop,
    decode,
    decode_batch,
    normalise,
)


def image(height, width):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype("float32")


def test_an_image_of_the_right_size_stays_as_it_is():
    np.testing.assert_array_equal(centre_crop(image(9, 9), 9), image(9, 9))


@pytest.mark.parametrize("height, width", [(9, 15), (14, 9)])
def test_the_middle_of_the_longer_side_is_seen(height, width):
    top, left = (height - 9) // 2, (width - 9) // 2
    expected = image(height, width)[top : top + 9, left : left + 9]
    np.testing.assert_array_equal(centre_crop(image(height, width), 9), expected)


def test_the_ratio_is_the_part_of_the_shorter_side_that_is_seen():
    framed = np.zeros((20, 30, 3), "float32")
    framed[4:16, 9:21] = 200  # the middle 12 of 20 pixels
    assert centre_crop(framed, 12, 0.6).numpy().min() == 200
    assert centre_crop(framed, 12, 0.9).numpy().min() < 100


@pytest.mark.parametrize("height, width", [(1, 1), (3, 50), (200, 7)])
def test_any_size_is_brought_to_the_same(height, width):
    cropped = centre_crop(image(height, width), 8, 0.875).numpy()
    assert cropped.shape == (8, 8, 3) and 0 <= cropped.min() <= cropped.max() <= 255


@pytest.mark.parametrize("name", NORMALISATION)
def test_mean_and_deviation_are_taken_out(name):
    mean, deviation = NORMALISATION[name]
    found = normalise(tf.constant(image(2, 3)), name).numpy()
    for y, x, c in np.ndindex(2, 3, 3):
        expected = (image(2, 3)[y, x, c] / 255 - mean[c]) / deviation[c]
        assert found[y, x, c] == pytest.approx(expected, abs=1e-5)


def test_bytes_become_pixels():
    pixels = image(5, 7)
    decoded = decode(tf.io.encode_png(pixels.astype("uint8")))
    np.testing.assert_array_equal(decoded, pixels)


def test_transparent_pixels_lie_over_white():
    pixels = np.array([[[10, 100, 200, 0], [10, 100, 200, 255], [10, 100, 200, 51]]], "uint8")
    expected = [[[255, 255, 255], [10, 100, 200], [206, 224, 244]]]
    np.testing.assert_allclose(decode(tf.io.encode_png(pixels)), expected, atol=1e-4)


def png(height, width):
    return tf.io.encode_png(image(height, width).astype("uint8")).numpy()


def test_each_file_of_a_batch_is_read_as_alone_and_keeps_its_place():
    good = [png(9, 30), png(17, 8), png(11, 11)]
    files = [b"", good[0], good[1], good[0][:40], good[2], b"GIF89a"]
    images, is_readable = decode_batch(tf.constant(files), 8, 0.9)
    assert is_readable.numpy().tolist() == [False, True, True, False, True, False]
    assert images.shape == (6, 8, 8, 3)
    for place, file in zip([1, 2, 4], good, strict=True):
        np.testing.assert_allclose(images[place], centre_crop(decode(file), 8, 0.9), atol=1e-3)
    assert not images.numpy()[[0, 3, 5]].any()


@pytest.mark.parametrize("files", [[], [b"junk", b""]])
def test_a_batch_of_nothing_is_nothing(files):
    images, is_readable = decode_batch(tf.constant(files, tf.string), 7)
    assert images.shape == (len(files), 7, 7, 3) and not is_readable.numpy().any()
    assert not images.numpy().any()


def test_a_batch_is_read_inside_a_graph_whatever_its_length():
    read = tf.function(
        lambda files: decode_batch(files, 8), [tf.TensorSpec([None], tf.string)], autograph=False
    )
    assert read.get_concrete_function().structured_outputs[0].shape.as_list() == [None, 8, 8, 3]
    for count in (1, 3):
        images, is_readable = read(tf.constant([png(8, 8)] * count))
        np.testing.assert_array_equal(images, np.repeat(image(8, 8)[None], count, axis=0))
        assert is_readable.numpy().tolist() == [True] * count


def test_a_very_long_picture_takes_no_more_memory_than_its_middle():
    """Whole, it would be resized to 16 × 320,000 pixels."""
    strip = np.zeros((1, 20_000, 3), "float32")
    strip[:, 9_996:10_004] = 200.0
    middle = centre_crop(tf.constant(strip), 16)
    np.testing.assert_allclose(middle, np.full((16, 16, 3), 200), atol=1e-3)
    tall = centre_crop(tf.constant(strip.transpose(1, 0, 2)), 16)
    np.testing.assert_allclose(tall, middle, atol=1e-3)
