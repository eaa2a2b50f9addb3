"""Picture files: read from a folder or a zip file, decoded in full, made plain for TensorFlow.

A file stays as it is if `tf.io.decode_image` gives the picture that a viewer shows. The others
become PNG files in RGB: turned as their EXIF data say, over white where they are transparent, the
first frame of an animation, 16-bit grey scaled to 8 bits.
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

import numpy as np
import tensorflow as tf
from PIL import Image, UnidentifiedImageError
from tqdm import tqdm

ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "PPM")  # Pillow knows riskier ones
JPEG = ("JPEG", "MPO")  # MPO: what many telephones write, several JPEGs in a row
MAX_BYTES = 2**28
MANY = 2000  # from here on a progress bar
GROUP = 32  # files that a thread reads before it looks for more

_HIDDEN = re.compile(r"(^|/)(\.|__MACOSX/)")
_ORIENTATION = 0x0112  # the EXIF tag, and what undoes each of its values
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@contextmanager
def open_files(path: Path) -> Iterator[tuple[list[str], Callable[[str], bytes]]]:
    """Opens a folder or a zip file for reading in threads.

    Yields:
        The paths below it, with "/", of files and, ending in "/", of folders, without the hidden
        ones; and what reads a file, up to `MAX_BYTES + 1`.
    """
    if path.is_dir():
        yield _visible(_walk(path)), lambda name: _read_some((path / name).open("rb"))
        return
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ValueError(f"{path} is not a whole zip file ({error})") from error
    lock = threading.Lock()  # older Pythons mix up what threads read at once

    def read(name: str) -> bytes:
        with lock:
            return _read_some(archive.open(name))

    with archive:
        if any(entry.flag_bits & 1 for entry in archive.infolist()):
            raise ValueError(f"{path} is encrypted: its pictures cannot be read")
        yield _visible(archive.namelist()), read


def is_picture(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def _visible(names: Iterable[str]) -> list[str]:
    return [name for name in names if not _HIDDEN.search(name)]


def _walk(folder: Path) -> Iterator[str]:
    for parent, folders, files in os.walk(folder, followlinks=True):
        inner = Path(parent).relative_to(folder)
        yield from (f"{(inner / name).as_posix()}/" for name in folders)
        yield from ((inner / name).as_posix() for name in files)


def _read_some(file) -> bytes:
    with file:
        return file.read(MAX_BYTES + 1)


def read_pictures(
    names: Sequence[str], read: Callable[[str], bytes]
) -> tuple[dict[str, bytes], dict[str, str]]:
    """Reads many pictures in threads.

    Args:
        names: of the files, each once.
        read: gives the bytes of a name.

    Returns:
        The plain pictures, and why the others are none, both by name and in the order given.
    """

    def check(name: str) -> bytes | str:
        try:
            return plain_picture(read(name))
        except Exception as error:  # a broken file can raise anything
            return _reason(error)

    groups = [names[start : start + GROUP] for start in range(0, len(names), GROUP)]
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        warnings.simplefilter("ignore")  # Pillow's notes on odd but readable files
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        results = tqdm(
            chain.from_iterable(pool.map(lambda group: [check(name) for name in group], groups)),
            "reading pictures",
            len(names),
            disable=len(names) < MANY or None,
            unit=" files",
        )
        found = dict(zip(names, results, strict=True))
    pictures = {name: result for name, result in found.items() if isinstance(result, bytes)}
    reasons = {name: result for name, result in found.items() if isinstance(result, str)}
    return pictures, reasons


def plain_picture(data: bytes) -> bytes:
    """The same picture as bytes that `tf.io.decode_image(data, channels=3)` decodes as meant."""
    if not data:
        raise ValueError("empty file")
    if len(data) > MAX_BYTES:
        raise ValueError(f"over {MAX_BYTES:,} bytes")
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        if image.format not in JPEG:  # which TensorFlow decodes in full
            image.load()  # turns a TIFF; finds what a PNG tells after its pixels
        turn = _TURNS.get(_orientation(image))
        if turn is None and _tensorflow_agrees(data, image):
            return data
        rgb = _to_rgb(image)
    return encode_png(np.asarray(rgb if turn is None else rgb.transpose(turn)))


def encode_png(pixels: np.ndarray) -> bytes:
    """uint8 in shape (h, w), (h, w, 1) or (h, w, 3) → a PNG file"""
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)  # it stays in memory: fast before small
    return buffer.getvalue()


def _tensorflow_agrees(data: bytes, image: Image.Image) -> bool:
    """Whether TensorFlow decodes the whole file, and to the same pixels."""
    if image.format not in (*JPEG, "PNG", "BMP") or image.mode == "CMYK":
        return False
    try:
        file = tf.constant(data)  # bytes as they are would take a slower way
        pixels = tf.io.decode_image(file, channels=3, expand_animations=False)  # (h, w, 3)
    except tf.errors.OpError:
        return False
    if image.format in JPEG:  # the two decoders round differently, by a few levels
        return pixels.shape == (image.height, image.width, 3)
    return np.array_equal(pixels, np.asarray(_to_rgb(image)))


def _orientation(image: Image.Image) -> int:
    try:
        return image.getexif().get(_ORIENTATION, 1)
    except Exception:  # broken EXIF data are no reason to leave a picture out
        return 1


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        return Image.fromarray(np.round(np.asarray(image) / 257).astype("uint8")).convert("RGB")
    if image.mode in ("I", "F"):
        raise ValueError("32-bit pixels, whose range is not known")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    return Image.alpha_composite(white, image).convert("RGB")


def _reason(error: Exception) -> str:
    """A few words on why a file is left out."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return "too many pixels"
    if isinstance(error, UnidentifiedImageError):
        return "not a picture"
    if "truncated" in text.lower():
        return "truncated"
    return text if isinstance(error, ValueError) else f"unreadable ({text})"
