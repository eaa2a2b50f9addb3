"""Every kind of picture file becomes the pixels that are meant, or is left out for a reason."""

import io
import os
import warnings
import zipfile

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfx_transformer.data import pictures
from tfx_transformer.data.pictures import encode_png, open_files, plain_picture, read_pictures

rng = np.random.default_rng(0)
RGB = np.kron(rng.integers(0, 256, (5, 7, 3)), np.ones((4, 4, 1))).astype("uint8")  # (20, 28, 3)
GREY, ALPHA = RGB[..., 0], RGB[..., 1]
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
    """What the model will see."""
    return tf.io.decode_image(data, channels=3, expand_animations=False).numpy()


def read_one(data):
    """The plain picture, or the reason."""
    found, reasons = read_pictures(["a"], {"a": data}.get)
    return found.get("a", reasons.get("a"))


def as_rgb(grey):
    return np.repeat(grey[..., None], 3, axis=-1)


def over_white(colours, alpha):
    share = alpha[..., None] / 255
    return np.round(colours * share + 255 * (1 - share))


def palette_image(indices=INDEX):
    image = Image.fromarray(indices)
    image.putpalette(PALETTE.ravel().tolist())
    return image


def transparent_palette():
    return np.where((INDEX == 2)[..., None], 255, PALETTE[INDEX])


def cmyk(c=RGB[..., 0], k=RGB[..., 1]):
    """Only cyan and black, so that the other two channels are as dark as black makes them."""
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
    "PNG, grey": (encode(GREY, "PNG"), as_rgb(GREY)),
    "PNG, opaque": (encode(np.dstack([RGB, np.full_like(GREY, 255)]), "PNG"), RGB),
    "BMP": (encode(RGB, "BMP"), RGB),
}
CHANGED = {
    "PNG, transparent": (encode(np.dstack([RGB, ALPHA]), "PNG"), over_white(RGB, ALPHA)),
    "PNG, grey and alpha": (
        encode(Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(ALPHA)]), "PNG"),
        over_white(as_rgb(GREY), ALPHA),
    ),
    "PNG, transparent in its palette": (
        encode(palette_image(), "PNG", transparency=2),
        transparent_palette(),
    ),
    "PNG, one colour transparent": (
        encode(PALETTE[INDEX], "PNG", transparency=tuple(PALETTE[2].tolist())),
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
EITHER = {  # TensorFlow may read them one day, or stop to
    "PNG, palette": (encode(palette_image(), "PNG"), PALETTE[INDEX]),
    "PNG, 1 bit": (encode(Image.fromarray(GREY > 99), "PNG"), as_rgb((GREY > 99) * 255)),
    "BMP, grey": (encode(GREY, "BMP"), as_rgb(GREY)),
    "BMP, palette": (encode(palette_image(), "BMP"), PALETTE[INDEX]),
    "BMP, 1 bit": (encode(Image.fromarray(GREY > 99), "BMP"), as_rgb((GREY > 99) * 255)),
}


@pytest.mark.parametrize(
    ("data", "expected"),
    [pytest.param(*row, id=name) for name, row in (KEPT | CHANGED | EITHER).items()],
)
def test_a_file_decodes_to_the_pixels_that_are_meant(data, expected):
    found = decode(read_one(data))
    assert found.shape == (20, 28, 3)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1)


@pytest.mark.parametrize("data", [pytest.param(row[0], id=name) for name, row in KEPT.items()])
def test_a_file_that_tensorflow_reads_as_meant_stays_as_it_is(data):
    assert read_one(data) == data


@pytest.mark.parametrize("data", [pytest.param(row[0], id=name) for name, row in CHANGED.items()])
def test_any_other_file_becomes_a_png_in_rgb(data):
    image = Image.open(io.BytesIO(read_one(data)))
    assert (image.format, image.mode) == ("PNG", "RGB")


@pytest.mark.parametrize(
    ("image", "options"),
    [
        (RGB, {}),
        (RGB, {"progressive": True}),
        (RGB, {"subsampling": "4:4:4", "quality": 98}),
        (RGB, {"keep_rgb": True}),
        (GREY, {}),
        (RGB, {"exif": b"Exif\0\0no such thing"}),
    ],
)
def test_a_jpeg_stays_as_it_is_and_tensorflow_sees_what_pillow_sees(image, options):
    data = encode(image, "JPEG", **options)
    assert read_one(data) == data
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), "float32")
    assert np.abs(decode(data) - expected).mean() < 4  # TensorFlow's decoder is fast, not exact


def test_several_jpegs_in_one_file_are_the_first():
    other = Image.fromarray(255 - RGB)
    data = encode(RGB, "MPO", save_all=True, append_images=[other])
    assert read_one(data) == data
    assert np.abs(decode(data) - RGB.astype(float)).mean() < 20


def test_a_cmyk_jpeg_becomes_rgb():
    smooth = np.add.outer(np.arange(20), np.arange(28)).astype("uint8") * 3
    image, expected = cmyk(smooth, 141 - smooth)
    found = read_one(encode(image, "JPEG", quality=98))
    assert Image.open(io.BytesIO(found)).format == "PNG"
    assert np.abs(decode(found) - expected).max() <= 8


UPRIGHT = {  # what each orientation of EXIF needs
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
def test_a_picture_is_turned_as_its_exif_data_say(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    data = encode(RGB, kind, exif=exif, **options)
    lying = np.asarray(Image.open(io.BytesIO(encode(RGB, kind, **options))))
    found = decode(read_one(data))
    expected = UPRIGHT[orientation](lying)
    assert found.shape == expected.shape
    assert np.abs(found - expected.astype(float)).max() <= (8 * (kind == "JPEG"))


def test_a_file_that_only_pillow_reads_is_written_anew():
    data = encode(RGB, "PNG")[:-12]  # all pixels are there, the mark of the end is not
    with pytest.raises(tf.errors.InvalidArgumentError):
        decode(data)
    np.testing.assert_array_equal(decode(read_one(data)), RGB)


BAD = {
    "nothing": (b"", "empty file"),
    "text": (b"no picture at all", "not a picture"),
    "JPEG": (encode(RGB, "JPEG")[:-40], "truncated"),
    "JPEG, progressive": (encode(RGB, "JPEG", progressive=True)[:-40], "truncated"),
    "JPEG, its first bytes": (encode(RGB, "JPEG")[:12], "truncated"),
    "PNG": (encode(RGB, "PNG")[:-60], "truncated"),
    "BMP": (encode(RGB, "BMP")[:-60], "truncated"),
    "TIFF of floats": (encode(RGB[..., 0] / np.float32(9), "TIFF"), "32-bit pixels"),
    "large": (encode(Image.new("1", (10_000, 10_000)), "PNG"), "too many pixels"),
    "huge": (encode(Image.new("1", (20_000, 10_000)), "PNG"), "too many pixels"),
    "JPEG 2000": (encode(RGB, "JPEG2000"), "not a picture"),
}


@pytest.mark.parametrize(
    ("data", "reason"), [pytest.param(*row, id=name) for name, row in BAD.items()]
)
def test_a_file_that_cannot_be_used_has_a_reason(data, reason):
    assert read_one(data).startswith(reason)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM"])
def test_a_file_cut_anywhere_is_whole_or_left_out(kind):
    whole = encode(RGB, kind)
    parts = {str(end): whole[:end] for end in range(0, len(whole), 1 + len(whole) // 60)}
    found, reasons = read_pictures(list(parts), parts.__getitem__)
    assert len(reasons) > 40
    for picture in found.values():
        np.testing.assert_array_equal(decode(picture), decode(read_one(whole)))


def test_a_file_of_too_many_bytes_is_not_opened(monkeypatch):
    monkeypatch.setattr(pictures, "MAX_BYTES", 100)
    assert read_one(encode(RGB, "PNG")) == "over 100 bytes"


def test_many_pictures_come_in_order_and_the_bad_ones_apart():
    names = [str(number) for number in range(150)]

    def read(name):
        if name == "7":
            raise PermissionError(13, "Permission denied", "/a/b/7")
        return b"" if int(name) % 50 == 3 else encode_png(np.full((2, 3), int(name), "uint8"))

    found, reasons = read_pictures(names, read)
    assert list(reasons) == ["3", "7", "53", "103"]
    assert reasons["7"] == "unreadable (Permission denied)"
    assert list(found) == [name for name in names if name not in reasons]
    assert all((decode(data) == int(name)).all() for name, data in found.items())


def test_the_filters_of_warnings_stay_as_they_were():
    before = list(warnings.filters)
    read_one(encode(RGB, "PNG"))
    assert warnings.filters == before


@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 1), (3, 4, 3)])
def test_pixels_survive_as_png(shape):
    pixels = rng.integers(0, 256, shape).astype("uint8")
    expected = np.broadcast_to(pixels.reshape(3, 4, -1), (3, 4, 3))
    np.testing.assert_array_equal(decode(encode_png(pixels)), expected)


FILES = {"cat/a.jpg": b"1", "b.txt": b"2", ".git/c.png": b"3", "cat/.d.png": b"4"}


def test_a_folder_and_a_zip_file_give_what_is_not_hidden(tmp_path):
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
        with open_files(path) as (names, read):
            assert set(names) - {"cat/"} == {"cat/a.jpg", "b.txt", "dog/"}
            assert read("cat/a.jpg") == b"1"


def test_links_to_folders_are_followed(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far/a.jpg").write_bytes(b"1")
    (tmp_path / "set").mkdir()
    os.symlink(tmp_path / "far", tmp_path / "set/cat")
    with open_files(tmp_path / "set") as (names, read):
        assert set(names) == {"cat/", "cat/a.jpg"} and read("cat/a.jpg") == b"1"


def test_a_plain_picture_is_plain_again():
    once = plain_picture(CHANGED["PNG, transparent"][0])
    assert plain_picture(once) == once
