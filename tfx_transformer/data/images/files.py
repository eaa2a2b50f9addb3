"""Reads image files from a folder or a zip file and checks that TensorFlow can decode them.

A file is kept unchanged if `decode` of pixels.py gives what an image viewer shows. Others are
converted to RGB PNG files: the first frame of an animation, 16-bit gray scaled to 8 bits, palettes.
Large images are compared and blended a few rows at a time, to limit the memory.
"""

import io
import os
import re
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import tensorflow as tf
from PIL import Image, UnidentifiedImageError
from tqdm import tqdm

from tfx_transformer.data.images.options import MAX_PIXELS
from tfx_transformer.data.images.pixels import decode_png, stored_orientation
from tfx_transformer.data.sources import unknown_source
from tfx_transformer.files import MAX_PIXEL_RATIO, check_size, reading

EXTENSIONS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # others of Pillow are less safe
JPEG = ("JPEG", "MPO")  # MPO: several JPEGs in one file, as many phones write
MAX_BYTES = 2**28
PROGRESS_FILES = 2000  # show a progress bar from this many files on
CHUNK = 32  # files that a thread reads at a time
ROWS = 256  # of an image, compared or blended at a time
SAFE = ("L", "LA", "RGB", "RGBA")  # modes of PNG files that all decoders agree on

T = TypeVar("T")

_HIDDEN = re.compile(r"(^|/)(\.|__MACOSX/|Thumbs\.db$|desktop\.ini$)")
_ORIENTATION = 0x0112  # the EXIF tag
_UPRIGHT = {  # what undoes each orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@contextmanager
def open_files(path: Path, known: str) -> Iterator[tuple[list[str], Callable[[str], bytes]]]:
    """Opens a folder or a zip file for reading in threads; `known` sources are for the error.

    Yields the relative paths of all files and, ending in "/", of all folders, without hidden ones;
    and a function that reads a file, up to `MAX_BYTES + 1`.
    """
    if not path.exists():
        raise FileNotFoundError(f"no such file or folder: {path}")
    if path.is_dir():
        yield _visible(_walk(path)), lambda name: read_file(path / name)
        return
    if path.suffix.lower() != ".zip":
        raise unknown_source(path, known)
    with reading(path):
        archive = zipfile.ZipFile(path)
    lock = threading.Lock()  # in older Pythons, parallel reads of a zip file fail

    def read(name: str) -> bytes:
        with lock, archive.open(name) as file:
            return file.read(MAX_BYTES + 1)

    with archive:
        if any(entry.flag_bits & 1 for entry in archive.infolist()):
            raise ValueError(f"{path} is encrypted: its images cannot be read")
        check_size(path, sum(entry.file_size for entry in archive.infolist()), MAX_PIXEL_RATIO)
        yield _visible(archive.namelist()), read


def is_image_name(name: str) -> bool:
    return name.lower().endswith(EXTENSIONS)


def _visible(names: Iterable[str]) -> list[str]:
    return [name for name in names if not _HIDDEN.search(name)]


def _walk(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder, followlinks=True):
        inner = Path(parent).relative_to(folder).as_posix()
        before = "" if inner == "." else f"{inner}/"
        yield from (f"{before}{name}/" for name in folders)
        yield from (before + name for name in files)


def read_file(path: str | Path) -> bytes:
    """The content of a file, up to `MAX_BYTES + 1`."""
    with Path(path).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def read_images(
    names: Sequence[str], read: Callable[[str], bytes], max_pixels: int = MAX_PIXELS
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Reads files in threads, each name once, and checks or converts each by `to_decodable`.

    Returns {name: encoded image} and, of the files that were skipped, {name: reason}.
    """
    return _check_all(names, lambda name: to_decodable(read(name), max_pixels))


def check_images(
    names: Sequence[str], read: Callable[[str], bytes], max_pixels: int = MAX_PIXELS
) -> tuple[dict[str, bool], dict[str, str]]:
    """As `read_images`, but the images are only checked: {name: whether it must be converted}."""

    def check(name: str) -> bool:
        data = read(name)
        return to_decodable(data, max_pixels) is not data

    return _check_all(names, check)


def _check_all(names: Sequence[str], function: Callable[[str], T]) -> tuple[dict[str, T], dict]:
    """{name: result}, and {name: reason} where the function fails; in threads."""

    def check(name: str) -> T | Exception:
        try:
            return function(name)
        except Exception as error:  # a broken file can raise anything
            return error

    chunks = (names[start : start + CHUNK] for start in range(0, len(names), CHUNK))
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        warnings.simplefilter("ignore")  # of Pillow, about unusual but readable files
        results = tqdm(
            chain.from_iterable(pool.map(lambda chunk: [check(name) for name in chunk], chunks)),
            "reading images",
            len(names),
            disable=len(names) < PROGRESS_FILES or None,
            unit=" files",
        )
        checked = dict(zip(names, results, strict=True))
    reasons = {name: _reason(x) for name, x in checked.items() if isinstance(x, Exception)}
    return {n: x for n, x in checked.items() if not isinstance(x, Exception)}, reasons


def to_decodable(data: bytes, max_pixels: int = MAX_PIXELS) -> bytes:
    """The image as bytes that `decode` of pixels.py decodes correctly."""
    if not data:
        raise ValueError("empty file")
    if len(data) > MAX_BYTES:
        raise ValueError(f"over {MAX_BYTES:,} bytes")
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        if image.width * image.height > max_pixels:
            raise ValueError("too many pixels")
        if _tensorflow_agrees(data, image):
            return data
        image.load()  # rotates a TIFF; reads the EXIF data at the end of a PNG
        upright = _UPRIGHT.get(_orientation(image))
        rgb = _to_rgb(image)
    return _encode(rgb if upright is None else rgb.transpose(upright))


def encode_png(pixels: np.ndarray) -> bytes:
    """Pixels (h, w), (h, w, 1) or (h, w, 3), uint8 → the bytes of a PNG file."""
    return _encode(Image.fromarray(pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels))


def _encode(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)  # kept in memory: speed before size
    return buffer.getvalue()


def _tensorflow_agrees(data: bytes, image: Image.Image) -> bool:
    """Whether TensorFlow decodes the file without errors, and to the same pixels."""
    if image.format not in (*JPEG, "PNG", "BMP") or image.mode == "CMYK":
        return False
    file = tf.constant(data)  # faster than passing bytes
    try:
        orientation = _orientation(image)
        if orientation in _UPRIGHT and stored_orientation(file) != orientation:
            return False
        if image.format == "PNG" and image.mode in SAFE:
            return decode_png(file).shape[:2] == (image.height, image.width)
        if image.format in JPEG:  # the two decoders differ by a few levels
            tf.io.decode_jpeg(file, channels=3, ratio=8)
            shape = tf.io.extract_jpeg_shape(file).numpy()  # slices of tensors are slow
            return shape[:2].tolist() == [image.height, image.width]
        pixels = tf.io.decode_image(file, channels=3, expand_animations=False)  # (h, w, 3)
    except tf.errors.OpError:
        return False
    image.load()
    return all(
        np.array_equal(pixels[row : row + ROWS], np.asarray(_to_rgb(part)))
        for row, part in _parts(image)
    )


def _orientation(image: Image.Image) -> int:
    try:
        return image.getexif().get(_ORIENTATION, 1)
    except Exception:  # broken EXIF data alone does not exclude an image
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        return Image.fromarray(np.round(np.asarray(image) / 257).astype("uint8")).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels of unknown range")
    if not image.has_transparency_data:
        return image.convert("RGB")
    white = Image.new("RGB", image.size, "white")
    for row, part in _parts(image):
        part = part.convert("RGBA")
        white.paste(part, (0, row), part)
    return white


def _parts(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """The image in parts of a few rows, each with its first row."""
    for row in range(0, image.height, ROWS):
        yield row, image.crop((0, row, image.width, min(row + ROWS, image.height)))


def _reason(error: Exception) -> str:
    """Why a file is skipped, in a few words."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, Image.DecompressionBombError):
        return "too many pixels"
    if isinstance(error, UnidentifiedImageError):
        return "not an image"
    if "truncated" in text.lower():
        return "truncated"
    return text if isinstance(error, ValueError) else f"unreadable ({text})"
