"""The size and the EXIF orientation of an image file, read inside the graph before it is decoded.

A file of a few kilobytes can claim an image of gigabytes, so the size must be known first. Known
formats are JPEG, PNG, GIF, BMP and WebP. Damage never fails but in `extract_jpeg_shape`: a size
that cannot be read is 0, an orientation is 1. No loop runs longer than `MAX_BLOCKS`.
"""

from typing import NamedTuple

import tensorflow as tf

MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"RIFF")
JPEG, PNG, GIF, BMP, WEBP, UNKNOWN = range(len(MAGIC) + 1)
MAX_BLOCKS = 2**16  # segments of a JPEG, chunks of a PNG or WebP, sub-blocks of a GIF
MAX_EXTENSIONS = 16  # of a GIF, before its first image
ORIENTATION, SHORT = 0x0112, 3  # a tag of EXIF, and its type


class Header(NamedTuple):
    """What is known of an image file before it is decoded: scalars, int64 but for the format."""

    format: tf.Tensor  # int32, JPEG to UNKNOWN
    height: tf.Tensor  # as stored, before rotation
    width: tf.Tensor
    orientation: tf.Tensor  # as in EXIF, 1 to 8
    end: tf.Tensor  # of the first image, in bytes


def read_header(encoded) -> Header:
    """Reads the header of a file, a scalar string."""
    is_format = [tf.strings.substr(encoded, 0, len(magic)) == magic for magic in MAGIC]
    format = tf.argmax(tf.stack([*is_format, True]), output_type=tf.int32)  # the first that is True
    length = tf.cast(tf.strings.length(encoded), tf.int64)

    def branch(read):
        return lambda: tuple(tf.cast(x, tf.int64) for x in read(encoded, length))

    readers = (read_jpeg, read_png, read_gif, read_bmp, read_webp, lambda *_: (0, 0, 1, 0))
    return Header(format, *tf.switch_case(format, [branch(read) for read in readers]))


# one function for each format: a file and its length → height, width, orientation, end


def read_jpeg(encoded, length):
    def next_segment(at):
        segment = read(encoded, at, 10)
        mark, marker, size = segment[0], segment[1], big(segment[2:4])
        is_exif = (marker == 0xE1) & is_equal(segment[4:], b"Exif\0\0")
        is_last = (mark != 0xFF) | (marker == 0xDA) | (size < 2) | is_exif
        after = tf.where(marker == 0xFF, at + 1, at + 2 + size)  # 0xFF alone is padding
        return tf.where(is_last, at, after)

    at = walk(next_segment, 2, length)
    exif = substring(encoded, at + 10, big(read(encoded, at, 4)[2:]) - 8)
    height, width, _ = tf.unstack(tf.io.extract_jpeg_shape(encoded, tf.int64))
    return height, width, orientation(exif), length


def read_png(encoded, length):
    def next_chunk(at):
        chunk = read(encoded, at, 8)
        return tf.where(is_equal(chunk[4:], b"eXIf"), at, at + 12 + big(chunk[:4]))

    head = read(encoded, 0, 24)
    at = walk(next_chunk, 8, length)
    exif = substring(encoded, at + 8, big(read(encoded, at, 4)))
    return big(head[20:]), big(head[16:20]), orientation(exif), length


def has_transparency(encoded):
    """Whether a PNG file has an alpha channel, or a chunk tRNS before its pixels."""
    length = tf.cast(tf.strings.length(encoded), tf.int64)

    def next_chunk(at):
        chunk = read(encoded, at, 8)
        is_last = is_equal(chunk[4:], b"tRNS") | is_equal(chunk[4:], b"IDAT")
        return tf.where(is_last, at, at + 12 + big(chunk[:4]))

    at = walk(next_chunk, 8, length)
    return (read(encoded, 25, 1)[0] // 4 % 2 == 1) | (substring(encoded, at + 4, 4) == b"tRNS")


def read_gif(encoded, length):
    """The size is that of the screen or, if it is larger, of the first image.

    The decoder would decompress all images of an animation: `end` allows to cut the others off.
    """

    def color_table(flags):
        return tf.where(flags >= 0x80, 3 * 2 ** (flags % 8 + 1), 0)

    def next_block(at):
        (size,) = tf.unstack(read(encoded, at, 1))
        return tf.where(size == 0, at, at + 1 + size)

    def after_blocks(at):
        return 1 + walk(next_block, at, length)  # the last one is empty

    def next_extension(at):
        is_extension = read(encoded, at, 1)[0] == 0x21
        return tf.cond(is_extension, lambda: after_blocks(at + 2), lambda: at)

    screen = read(encoded, 0, 13)
    at = walk(next_extension, 13 + color_table(screen[10]), length, MAX_EXTENSIONS)
    image = read(encoded, at, 10)
    end = after_blocks(at + 11 + color_table(image[9]))
    is_whole = (image[0] == 0x2C) & (read(encoded, end - 1, 1)[0] == 0) & (end <= length)
    height = tf.maximum(little(screen[8:10]), little(image[7:9]))
    width = tf.maximum(little(screen[6:8]), little(image[5:7]))
    return tf.where(is_whole, height, 0), tf.where(is_whole, width, 0), 1, end


def read_bmp(encoded, length):
    head = read(encoded, 0, 26)
    height, width = little(head[22:]), little(head[18:22])
    return tf.minimum(height, 2**32 - height), width, 1, length  # −height: the top row is first


def read_webp(encoded, length):
    def next_chunk(at):
        chunk = read(encoded, at, 8)
        size = little(chunk[4:])
        return tf.where(is_equal(chunk[:4], b"EXIF"), at, at + 8 + size + size % 2)

    head = read(encoded, 0, 30)
    bits = little(head[21:25])
    sizes = {
        b"VP8 ": (little(head[28:]) % 2**14, little(head[26:28]) % 2**14),
        b"VP8L": (1 + bits // 2**14 % 2**14, 1 + bits % 2**14),
        b"VP8X": (1 + little(head[27:]), 1 + little(head[24:27])),
    }
    is_kind = {kind: is_equal(head[12:16], kind) for kind in sizes}
    height, width = (
        tf.add_n([tf.where(is_kind[kind], pair[i], 0) for kind, pair in sizes.items()])
        for i in range(2)
    )
    at = walk(next_chunk, 12, length)
    exif = substring(encoded, at + 8, little(read(encoded, at, 8)[4:]))
    return height, width, orientation(exif), length


def orientation(exif):
    """The orientation in EXIF data, which has the form of a TIFF file; 1 if there is none."""
    return tf.cond(
        tf.strings.length(exif) < 8, lambda: tf.constant(1, tf.int64), lambda: _orientation(exif)
    )


def _orientation(exif):
    exif = tf.strings.regex_replace(exif, rb"^Exif\x00\x00", b"")  # some WebP files have it
    head = read(exif, 0, 8)
    is_little = is_equal(head[:4], b"II*\0")
    is_tiff = is_little | is_equal(head[:4], b"MM\0*")

    def integer(data):
        return tf.where(is_little, little(data), big(data))

    start = integer(head[4:])
    size = 12 * integer(read(exif, start, 2))
    entries = tf.io.decode_raw(substring(exif, start + 2, size), tf.uint8)
    entries = tf.cast(tf.reshape(entries[: tf.size(entries) // 12 * 12], [-1, 12]), tf.int64)
    tag, kind, count, value = (
        integer(entries[:, i:j]) for i, j in ((0, 2), (2, 4), (4, 8), (8, 10))
    )
    is_valid = (tag == ORIENTATION) & (kind == SHORT) & (count == 1) & (value >= 1) & (value <= 8)
    values = tf.boolean_mask(value, is_tiff & is_valid)
    return tf.concat([tf.ones([1], tf.int64), values], axis=0)[-1]


# the bytes of a file: beyond its end there is nothing, or zeros


def walk(next_block, start, length, limit=MAX_BLOCKS):
    """The first position, from `start` on, that `next_block` does not change, or `length`."""
    start = tf.minimum(tf.cast(start, tf.int64), length)
    at, _ = tf.while_loop(
        lambda at, before: (at != before) & (at < length),
        lambda at, _: (tf.minimum(next_block(at), length), at),
        (start, start - 1),
        maximum_iterations=limit,
    )
    return at


def substring(data, at, count):
    """Up to `count` bytes from a position on."""
    length = tf.cast(tf.strings.length(data), tf.int64)
    at, count = tf.cast(at, tf.int64), tf.cast(count, tf.int64)
    return tf.strings.substr(data, tf.minimum(at, length), tf.maximum(count, 0))


def read(data, at, count: int):
    """`count` bytes from a position on, as int64 (count,)."""
    part = tf.io.decode_raw(substring(data, at, count), tf.uint8, fixed_length=count)
    return tf.cast(tf.ensure_shape(part, [count]), tf.int64)


def little(data):
    """Bytes (…, n), the lowest first → int64 (…)."""
    return tf.reduce_sum(data * [256**i for i in range(data.shape[-1])], axis=-1)


def big(data):
    return little(data[..., ::-1])


def is_equal(data, expected: bytes):
    return tf.reduce_all(data == list(expected))
