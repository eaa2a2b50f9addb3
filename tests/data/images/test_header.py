"""Size and orientation from the header of a file, compared with Pillow."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfx_transformer.data.images import header
from tfx_transformer.data.images.header import BMP, GIF, JPEG, PNG, UNKNOWN, WEBP, read_header
from tfx_transformer.runtime import graph

FORMATS = {"JPEG": JPEG, "PNG": PNG, "GIF": GIF, "BMP": BMP, "WEBP": WEBP}
read_in_graph = graph(read_header, tf.TensorSpec([], tf.string))


def read(data):
    return header.Header(*(int(part) for part in read_in_graph(data)))


def noise(height=37, width=300):
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), "uint8"))


def encode(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def tiff(order, entries, start=8):
    """EXIF data: a header, `start` − 8 bytes of nothing, and (tag, type, count, value) entries."""
    mark = {"<": b"II*\0", ">": b"MM\0*"}[order]
    packed = [struct.pack(f"{order}HHIHH", *entry, 0) for entry in entries]
    count = struct.pack(f"{order}H", len(entries))
    return (
        mark
        + struct.pack(f"{order}I", start)
        + b"\0" * (start - 8)
        + count
        + b"".join(packed)
        + bytes(4)
    )


@pytest.mark.parametrize("kind", FORMATS)
def test_the_format_and_the_size_are_those_of_pillow(kind):
    data = encode(noise(), kind)
    assert read(data) == (FORMATS[kind], 37, 300, 1, len(data) - (kind == "GIF"))


@pytest.mark.parametrize("size", [(1, 1), (255, 256), (257, 1), (1, 70_000)])
@pytest.mark.parametrize("kind", ["PNG", "BMP"])
def test_every_byte_of_a_size_counts(kind, size):
    assert read(encode(Image.new("RGB", size), kind))[1:3] == size[::-1]


@pytest.mark.parametrize("options", [{"lossless": True}, {"exif": b"Exif\0\0MM"}, {"quality": 20}])
def test_all_three_kinds_of_webp_files_have_a_size(options):
    assert read(encode(noise(), "WEBP", **options))[:3] == (WEBP, 37, 300)


def test_a_bmp_file_may_start_with_its_top_row():
    data = bytearray(encode(noise(), "BMP"))
    data[22:26] = struct.pack("<i", -37)
    assert read(bytes(data))[1:3] == (37, 300)


def test_a_gif_ends_after_its_first_image():
    frames = [noise(), noise().rotate(180), noise().rotate(90)]
    whole = encode(frames[0], "GIF", save_all=True, append_images=frames[1:], comment=b"x" * 999)
    first = whole[: read(whole).end] + b";"
    assert len(first) < len(whole) / 2
    expected = Image.open(io.BytesIO(whole)).convert("RGB")
    np.testing.assert_array_equal(tf.io.decode_gif(first)[0], expected)


def test_a_gif_of_endless_blocks_has_no_size(monkeypatch):
    monkeypatch.setattr(header, "MAX_BLOCKS", 50)
    long = b"GIF89a" + bytes(7) + b"\x21\xfe" + b"\1a" * 9999 + b"\0;"
    assert read_header(long).height == 0


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_every_orientation_is_found_in_both_byte_orders(kind, order):
    for value in range(1, 9):
        others = [(0x0100, 4, 1, 7), (0x0112, 3, 1, value), (0x0131, 2, 9, 0)]
        data = encode(noise(), kind, exif=b"Exif\0\0" + tiff(order, others, start=8 + value))
        assert Image.open(io.BytesIO(data)).getexif()[0x0112] == value
        assert read(data).orientation == value


def test_segments_before_the_exif_data_are_skipped():
    exif = b"Exif\0\0" + tiff(">", [(0x0112, 3, 1, 6)])
    data = encode(noise(), "JPEG", exif=exif, icc_profile=b"i" * 70_000)
    extra = b"\xff\xe1\0\x09http://" + b"\xff\xff\xfe\0\x05abc"  # XMP, padding and a comment
    assert read(data[:2] + extra + data[2:]).orientation == 6


GARBAGE = [
    b"",
    b"II*\0",
    b"no such thing",
    tiff("<", [(0x0112, 3, 1, 9)]),
    tiff("<", [(0x0112, 3, 1, 0)]),
    tiff(">", [(0x0112, 3, 2, 6)]),
    tiff(">", [(0x0112, 2, 1, 6)]),
    tiff("<", [(0x0113, 3, 1, 6)]),
    tiff("<", [(0x0112, 3, 1, 6)])[:-10],
    b"II*\0\xff\xff\xff\xff" + tiff("<", [(0x0112, 3, 1, 6)])[8:],
    b"XX*\0" + tiff("<", [(0x0112, 3, 1, 6)])[4:],
]


@pytest.mark.parametrize("exif", GARBAGE)
def test_garbage_in_exif_data_is_ignored(exif):
    for kind in ("JPEG", "PNG", "WEBP"):
        data = encode(noise(), kind, exif=b"Exif\0\0" + exif)
        assert read(data)[:4] == (FORMATS[kind], 37, 300, 1)


@pytest.mark.parametrize("data", [b"", b"G", b"text", b"II*\0", b"RIFF1234AVI ", b"BM", b"GIF89a"])
def test_other_bytes_have_no_size(data):
    found = read(data)
    assert found.height * found.width == 0 and found.orientation == 1
    assert (found.format == UNKNOWN) == (data[:4] not in (b"BM", b"GIF8", b"RIFF"))


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "WEBP"])
def test_damage_never_fails(kind):
    rng = np.random.default_rng(0)
    whole = encode(noise(), kind)
    for _ in range(60):
        data = bytearray(whole[: rng.integers(len(whole))])
        for at in rng.integers(0, min(len(data), 60) + 1, 5):
            data[at : at + 1] = rng.bytes(1)
        assert read(bytes(data)).end <= len(data) + 1
