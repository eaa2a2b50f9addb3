"""Decoding, resizing and normalization of images."""

import io
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image, ImageOps

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


def encode(array, kind, **options):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_an_image_is_turned_upright_as_pillow_does(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    pixels = image(7, 12).astype("uint8").repeat(8, axis=0).repeat(8, axis=1)
    data = encode(pixels, kind, exif=exif, **{"lossless": True} if kind == "WEBP" else {})
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))))
    decoded = decode(data).numpy()
    assert decoded.shape == expected.shape
    assert np.abs(decoded - expected.astype(float)).mean() < (2 if kind == "JPEG" else 0.01)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "WEBP"])
def test_an_image_of_too_many_pixels_is_not_decoded_and_the_others_are(kind):
    small, large = (encode(image(9, width).astype("uint8"), kind) for width in (11, 12))
    images, is_readable = decode_batch(tf.constant([large, small, large]), 8, max_pixels=99)
    assert is_readable.numpy().tolist() == [False, True, False]
    assert images[1].numpy().any() and not images.numpy()[::2].any()
    with pytest.raises(tf.errors.InvalidArgumentError, match="too many pixels"):
        decode(large, 99)


def test_of_an_animation_the_first_image_is_decoded():
    frames = [Image.fromarray(image(9, 11).astype("uint8")).rotate(angle) for angle in (0, 90, 180)]
    file = io.BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    expected = np.asarray(Image.open(file).convert("RGB"))
    np.testing.assert_array_equal(decode(file.getvalue()), expected)


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGB", "RGBA"])
def test_a_png_of_every_mode_has_the_colors_of_pillow(mode):
    gray = Image.fromarray(image(9, 11)[..., 0].astype("uint8") // 16)
    picture = gray.convert("RGBA").convert("RGB") if mode == "P" else gray.convert(mode)
    picture = picture.quantize(5) if mode == "P" else picture
    file = io.BytesIO()
    picture.save(file, "PNG")
    np.testing.assert_array_equal(decode(file.getvalue()), np.asarray(picture.convert("RGB")))
    if mode == "P":
        picture.save(file := io.BytesIO(), "PNG", transparency=2)
        expected = np.asarray(picture.convert("RGB")).copy()
        expected[np.asarray(picture) == 2] = 255
        np.testing.assert_array_equal(decode(file.getvalue()), expected)


def test_a_transparent_webp_is_blended_with_white():
    pixels = np.dstack([image(9, 11), image(9, 11)[..., :1]]).astype("uint8")
    opacity = pixels[..., 3:] / 255
    expected = pixels[..., :3] * opacity + 255 * (1 - opacity)
    decoded = decode(encode(pixels, "WEBP", lossless=True, exact=True))
    np.testing.assert_allclose(decoded, expected, atol=0.51)


MEMORY = """
import ctypes, io
import tensorflow as tf
from PIL import Image
from tfx_transformer.data.images.pixels import decode_batch
from tfx_transformer.runtime import graph

def encode(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()

def status(key):
    line = next(line for line in open("/proc/self/status") if line.startswith(key))
    return 1024 * int(line.split()[1])

noise = Image.effect_noise((500, 500), 9).resize((4000, 5000), Image.Resampling.NEAREST)
exif = Image.Exif()
exif[0x0112] = 6
files = [
    encode(Image.new("1", (20_000, 20_000)), "PNG"),
    encode(noise.convert("RGB"), "JPEG", progressive=True, subsampling="4:4:4", exif=exif),
    encode(Image.merge("LA", [noise, noise]), "PNG", exif=exif),
]
del noise
read = graph(lambda files: decode_batch(files, 224), tf.TensorSpec([None], tf.string))
read(tf.constant([encode(Image.new("L", (9, 9)), kind) for kind in ("PNG", "JPEG")]))
for file in files:
    ctypes.CDLL(None).malloc_trim(0)
    before = status("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")  # resets the peak
    is_readable = bool(read(tf.constant([file]))[1][0])
    print(is_readable, status("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_picture_takes_less_than_8_bytes_a_pixel_and_a_bomb_takes_nothing():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    bomb, jpeg, png = (line.split() for line in done.stdout.splitlines())
    assert bomb[0] == "False" and int(bomb[1]) < 20e6
    for is_readable, used in (jpeg, png):
        assert is_readable == "True" and 10e6 < int(used) < 8 * 20e6


def test_squash_keeps_all_of_an_image_and_changes_its_aspect_ratio():
    halves = np.zeros((20, 60, 3), "float32")
    halves[:, 30:] = 200
    squashed = resize_and_crop(halves, 10, resize="squash").numpy()
    np.testing.assert_allclose(squashed[:, :4], 0, atol=5)
    np.testing.assert_allclose(squashed[:, 6:], 200, atol=5)
    expected = tf.image.resize(halves, [20, 20], "bicubic", antialias=True)[5:15, 5:15]
    middle = resize_and_crop(halves, 10, 0.5, "squash")
    np.testing.assert_allclose(middle, tf.clip_by_value(expected, 0, 255), atol=1e-3)


@pytest.mark.parametrize("height, width", [(20, 40), (40, 20)])
def test_pad_keeps_the_aspect_ratio_and_adds_gray_on_both_sides(height, width):
    padded = resize_and_crop(np.full((height, width, 3), 200, "uint8"), 12, resize="pad").numpy()
    padded = padded if width > height else padded.swapaxes(0, 1)
    np.testing.assert_allclose(padded[3:9], 200, atol=1e-3)
    np.testing.assert_array_equal(padded[[0, 1, 2, 9, 10, 11]], 128)


@pytest.mark.parametrize("resize", ["crop", "squash", "pad"])
@pytest.mark.parametrize("height, width", [(1, 1), (1, 5_000), (300, 7), (12, 12)])
def test_every_way_to_resize_gives_the_same_size(resize, height, width):
    square = resize_and_crop(image(height, width), 12, 0.875, resize).numpy()
    assert square.shape == (12, 12, 3) and 0 <= square.min() <= square.max() <= 255
