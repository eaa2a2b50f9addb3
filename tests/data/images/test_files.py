"""Every kind of image file is decoded correctly, or skipped with a reason."""

import io
import os
import warnings
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfx_transformer.data.images import files, pixels
from tfx_transformer.data.images.files import encode_png, open_files, read_images, to_decodable

rng = np.random.default_rng(0)
RGB = np.kron(rng.integers(0, 256, (5, 7, 3)), np.ones((4, 4, 1))).astype("uint8")  # (20, 28, 3)
GRAY, ALPHA = RGB[..., 0], RGB[..., 1]
DEEP = np.arange(20 * 28, dtype="uint16").reshape(20, 28) * 117  # 0..65403
INDEX = np.arange(20 * 28, dtype="uint8").reshape(20, 28) % 5
PALETTE = rng.integers(0, 256, (5, 3)).astype("uint8")


def encode(image, kind, **options):
    buffer = io.BytesIO()
    (Image.fromarray(image) if isinstance(image, np.ndarray) else image).save(
        buffer, kind, **options
    )
    return buffer.getvalue()


def decode(data):
    """The pixels, as pipelines decode them."""
    return pixels.decode(data).numpy()


def read_one(data):
    """The decodable image, or the reason why it is skipped."""
    images, reasons = read_images(["a"], {"a": data}.get)
    return images.get("a", reasons.get("a"))


def as_rgb(gray):
    return np.repeat(gray[..., None], 3, axis=-1)


def over_white(colors, alpha):
    opacity = alpha[..., None] / 255
    return np.round(colors * opacity + 255 * (1 - opacity))


def palette_image(indices=INDEX):
    image = Image.fromarray(indices)
    image.putpalette(PALETTE.ravel().tolist())
    return image


def transparent_palette():
    return np.where((INDEX == 2)[..., None], 255, PALETTE[INDEX])


def cmyk(c=RGB[..., 0], k=RGB[..., 1]):
    """Only cyan and black, so that green and blue depend on black alone."""
    inks = np.stack([c, 0 * c, 0 * c, k], axis=-1)
    light = 255 - k.astype(float)
    return Image.frombytes("CMYK", (28, 20), inks.tobytes()), np.stack(
        [(255 - c) * light / 255, light, light], axis=-1
    )


def animation():
    frames = [palette_image(), palette_image((INDEX + 1) % 5)]
    return encode(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=100)


KEPT = {
    "PNG": (encode(RGB, "PNG"), RGB),
    "PNG, gray": (encode(GRAY, "PNG"), as_rgb(GRAY)),
    "PNG, opaque": (encode(np.dstack([RGB, np.full_like(GRAY, 255)]), "PNG"), RGB),
    "PNG, transparent": (encode(np.dstack([RGB, ALPHA]), "PNG"), over_white(RGB, ALPHA)),
    "PNG, gray and alpha": (
        encode(Image.merge("LA", [Image.fromarray(GRAY), Image.fromarray(ALPHA)]), "PNG"),
        over_white(as_rgb(GRAY), ALPHA),
    ),
    "PNG, one color transparent": (
        encode(PALETTE[INDEX], "PNG", transparency=tuple(PALETTE[2].tolist())),
        transparent_palette(),
    ),
    "BMP": (encode(RGB, "BMP"), RGB),
}
CHANGED = {
    "PNG, transparent in its palette": (
        encode(palette_image(), "PNG", transparency=2),
        transparent_palette(),
    ),
    "PNG, 16 bits": (encode(DEEP, "PNG"), as_rgb(np.round(DEEP / 65535 * 255))),
    "TIFF, 16 bits": (encode(DEEP, "TIFF"), as_rgb(np.round(DEEP / 65535 * 255))),
    "TIFF, 16 bits, big-endian": (
        encode(Image.frombytes("I;16B", (28, 20), DEEP.astype(">u2").tobytes()), "TIFF"),
        as_rgb(np.round(DEEP / 65535 * 255)),
    ),
    "TIFF": (encode(RGB, "TIFF"), RGB),
    "TIFF, packed": (encode(RGB, "TIFF", compression="tiff_lzw"), RGB),
    "TIFF, CMYK": (encode(cmyk()[0], "TIFF"), cmyk()[1]),
    "WebP": (encode(RGB, "WEBP", lossless=True), RGB),
    "WebP, transparent": (
        encode(np.dstack([RGB, ALPHA]), "WEBP", lossless=True, exact=True),
        over_white(RGB, ALPHA),
    ),
    "PPM": (encode(RGB, "PPM"), RGB),
    "GIF": (encode(palette_image(), "GIF"), PALETTE[INDEX]),
    "GIF, transparent": (encode(palette_image(), "GIF", transparency=2), transparent_palette()),
    "GIF, animated": (animation(), PALETTE[INDEX]),
}
EITHER = {  # depends on the version of TensorFlow
    "PNG, palette": (encode(palette_image(), "PNG"), PALETTE[INDEX]),
    "PNG, 1 bit": (encode(Image.fromarray(GRAY > 99), "PNG"), as_rgb((GRAY > 99) * 255)),
    "BMP, gray": (encode(GRAY, "BMP"), as_rgb(GRAY)),
    "BMP, palette": (encode(palette_image(), "BMP"), PALETTE[INDEX]),
    "BMP, 1 bit": (encode(Image.fromarray(GRAY > 99), "BMP"), as_rgb((GRAY > 99) * 255)),
}


@pytest.mark.parametrize(
    ("data", "expected"),
    [pytest.param(*row, id=name) for name, row in (KEPT | CHANGED | EITHER).items()],
)
def test_a_file_decodes_to_the_expected_pixels(data, expected):
    pixels = decode(read_one(data))
    assert pixels.shape == (20, 28, 3)
    np.testing.assert_allclose(pixels, expected, rtol=0, atol=1)


@pytest.mark.parametrize("data", [pytest.param(row[0], id=name) for name, row in KEPT.items()])
def test_a_file_that_tensorflow_decodes_correctly_is_unchanged(data):
    assert read_one(data) == data


@pytest.mark.parametrize("data", [pytest.param(row[0], id=name) for name, row in CHANGED.items()])
def test_any_other_file_becomes_an_rgb_png(data):
    image = Image.open(io.BytesIO(read_one(data)))
    assert (image.format, image.mode) == ("PNG", "RGB")


@pytest.mark.parametrize(
    ("image", "options"),
    [
        (RGB, {}),
        (RGB, {"progressive": True}),
        (RGB, {"subsampling": "4:4:4", "quality": 98}),
        (RGB, {"keep_rgb": True}),
        (GRAY, {}),
        (RGB, {"exif": b"Exif\0\0no such thing"}),
    ],
)
def test_a_jpeg_is_unchanged_and_tensorflow_decodes_it_like_pillow(image, options):
    data = encode(image, "JPEG", **options)
    assert read_one(data) == data
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), "float32")
    assert np.abs(decode(data) - expected).mean() < 4  # TensorFlow's decoder is fast, not exact


def test_of_several_jpegs_in_one_file_the_first_is_used():
    other = Image.fromarray(255 - RGB)
    data = encode(RGB, "MPO", save_all=True, append_images=[other])
    assert read_one(data) == data
    assert np.abs(decode(data) - RGB.astype(float)).mean() < 20


def test_a_cmyk_jpeg_becomes_rgb():
    smooth = np.add.outer(np.arange(20), np.arange(28)).astype("uint8") * 3
    image, expected = cmyk(smooth, 141 - smooth)
    converted = read_one(encode(image, "JPEG", quality=98))
    assert Image.open(io.BytesIO(converted)).format == "PNG"
    assert np.abs(decode(converted) - expected).max() <= 8


UPRIGHT = {  # what undoes each EXIF orientation
    1: lambda x: x,
    2: lambda x: x[:, ::-1],
    3: lambda x: x[::-1, ::-1],
    4: lambda x: x[::-1],
    5: lambda x: x.swapaxes(0, 1),
    6: lambda x: np.rot90(x, -1),
    7: lambda x: x[::-1, ::-1].swapaxes(0, 1),
    8: lambda x: np.rot90(x),
}


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "JPEG"])
def test_an_image_is_rotated_by_its_exif_orientation(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encode(RGB, kind, exif=exif, **options)
    stored = np.asarray(Image.open(io.BytesIO(encode(RGB, kind, **options))))
    pixels = decode(read_one(data))
    expected = UPRIGHT[orientation](stored)
    assert pixels.shape == expected.shape
    assert np.abs(pixels - expected.astype(float)).max() <= (8 * (kind == "JPEG"))


def test_a_file_that_only_pillow_reads_is_converted():
    data = encode(RGB, "PNG")[:-12]  # all pixels, but no end marker
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(data)
    np.testing.assert_array_equal(decode(read_one(data)), RGB)


BAD = {
    "nothing": (b"", "empty file"),
    "text": (b"not an image at all", "not an image"),
    "JPEG": (encode(RGB, "JPEG")[:-40], "truncated"),
    "JPEG, progressive": (encode(RGB, "JPEG", progressive=True)[:-40], "truncated"),
    "JPEG, its first bytes": (encode(RGB, "JPEG")[:12], "truncated"),
    "PNG": (encode(RGB, "PNG")[:-60], "truncated"),
    "BMP": (encode(RGB, "BMP")[:-60], "truncated"),
    "TIFF of floats": (encode(RGB[..., 0] / np.float32(9), "TIFF"), "32-bit pixels"),
    "large": (encode(Image.new("1", (10_000, 10_000)), "PNG"), "too many pixels"),
    "huge": (encode(Image.new("1", (20_000, 10_000)), "PNG"), "too many pixels"),
    "JPEG 2000": (encode(RGB, "JPEG2000"), "not an image"),
}


@pytest.mark.parametrize(
    ("data", "reason"), [pytest.param(*row, id=name) for name, row in BAD.items()]
)
def test_a_bad_file_is_skipped_with_a_reason(data, reason):
    assert read_one(data).startswith(reason)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_a_truncated_file_is_decoded_completely_or_skipped(kind):
    whole = encode(RGB, kind)
    parts = {str(end): whole[:end] for end in range(0, len(whole), 1 + len(whole) // 60)}
    images, reasons = read_images(list(parts), parts.__getitem__)
    assert len(reasons) > 40
    for image in images.values():
        np.testing.assert_array_equal(decode(image), decode(read_one(whole)))


def test_a_file_of_too_many_bytes_is_not_opened(monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 100)
    assert read_one(encode(RGB, "PNG")) == "over 100 bytes"


def test_images_keep_their_order_and_bad_ones_are_reported():
    names = [str(number) for number in range(150)]

    def read(name):
        if name == "7":
            raise PermissionError(13, "Permission denied", "/a/b/7")
        return b"" if int(name) % 50 == 3 else encode_png(np.full((2, 3), int(name), "uint8"))

    images, reasons = read_images(names, read)
    assert list(reasons) == ["3", "7", "53", "103"]
    assert reasons["7"] == "unreadable (Permission denied)"
    assert list(images) == [name for name in names if name not in reasons]
    assert all((decode(data) == int(name)).all() for name, data in images.items())


def test_warning_filters_are_restored():
    before = list(warnings.filters)
    read_one(encode(RGB, "PNG"))
    assert warnings.filters == before


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 1), (3, 4, 3)])
def test_a_png_keeps_the_pixels(shape):
    pixels = rng.integers(0, 256, shape).astype("uint8")
    expected = np.broadcast_to(pixels.reshape(3, 4, -1), (3, 4, 3))
    np.testing.assert_array_equal(decode(encode_png(pixels)), expected)


FILES = {"cat/a.jpg": b"1", "b.txt": b"2", ".git/c.png": b"3", "cat/.d.png": b"4"}


def test_hidden_files_of_a_folder_or_a_zip_file_are_skipped(tmp_path):
    folder, archive = tmp_path / "folder", tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
            file.writestr(name, data)
        file.writestr("__MACOSX/cat/._a.jpg", b"5")
        file.mkdir("dog")
    (folder / "dog").mkdir()
    for path in (folder, archive):
        with open_files(path, "a folder") as (names, read):
            assert set(names) - {"cat/"} == {"cat/a.jpg", "b.txt", "dog/"}
            assert read("cat/a.jpg") == b"1"


def test_links_to_folders_are_followed(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far/a.jpg").write_bytes(b"1")
    (tmp_path / "set").mkdir()
    os.symlink(tmp_path / "far", tmp_path / "set/cat")
    with open_files(tmp_path / "set", "a folder") as (names, read):
        assert set(names) == {"cat/", "cat/a.jpg"} and read("cat/a.jpg") == b"1"


def test_a_converted_image_is_unchanged_the_second_time():
    once = to_decodable(CHANGED["WebP, transparent"][0])
    assert to_decodable(once) == once


def test_a_zip_file_that_expands_is_refused_before_an_image_is_read(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("cat/a.png", encode(RGB, "PNG") + bytes(2**24))
    with (
        pytest.raises(ValueError, match="a.zip of .* bytes must not expand to 16,7"),
        open_files(path, ""),
    ):
        pass


def test_entries_of_a_zip_file_outside_of_it_are_never_opened(tmp_path):
    """Names are keys of the archive, not paths; a link is a small file that is no image."""
    secret, png = tmp_path / "secret.png", encode(RGB, "PNG")
    secret.write_bytes(encode(GRAY, "PNG"))
    link = zipfile.ZipInfo("cat/link.png")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(link, str(secret))
        for name in ("../secret.png", str(secret), "cat/a.png"):
            archive.writestr(name, png)
    with open_files(tmp_path / "a.zip", "") as (names, read):
        images, reasons = read_images(names, read)
    assert set(images.values()) == {png} and reasons == {"cat/link.png": "not an image"}
    assert "../secret.png" not in images
