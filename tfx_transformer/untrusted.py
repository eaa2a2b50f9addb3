"""Files from others: memory stays within a small multiple of a file's size, and every defect of a
file is one ValueError of one line that names it."""

import contextlib
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

MAX_RATIO = 8  # bytes in memory for each byte of a file
MAX_PIXEL_RATIO = 64  # the same for files of images, which are compressed better than weights
MIN_BYTES = 2**20  # always allowed
MAX_JSON_BYTES = 2**24


@contextlib.contextmanager
def reading(path) -> Iterator[None]:
    """Every error inside, except for an OSError of the file system, becomes a ValueError."""
    try:
        yield
    except Exception as error:  # a damaged file can raise anything
        is_of_file_system = isinstance(error, OSError) and error.filename is not None
        is_clear = isinstance(error, ValueError) and str(path) in str(error)
        if is_of_file_system or isinstance(error, FileNotFoundError) or is_clear:
            raise
        lines = f"{error}".splitlines() or [type(error).__name__]
        reason = f"it has no {lines[0]}" if isinstance(error, KeyError) else lines[0]
        raise ValueError(f"{path} is damaged or not supported: {reason[:200]}") from error


def check_size(path, num_bytes: int, ratio: int = MAX_RATIO) -> None:
    """Raises if the content takes more than `ratio` times as much memory as the file on disk."""
    size = Path(path).stat().st_size
    if num_bytes > max(ratio * size, MIN_BYTES):
        raise ValueError(f"{path} of {size:,} bytes must not expand to {num_bytes:,} bytes")


def read_json(path) -> dict[str, Any]:
    """A JSON file that contains an object; without NaN and infinities, which JSON lacks."""

    def refuse(name: str):
        raise ValueError(f"{name} is not a number")

    with reading(path):
        if Path(path).stat().st_size > MAX_JSON_BYTES:
            raise ValueError(f"it must not exceed {MAX_JSON_BYTES:,} bytes")
        content = json.loads(Path(path).read_text("utf-8"), parse_constant=refuse)
        if not isinstance(content, dict):
            raise ValueError(f"it must contain an object; got {type(content).__name__}")
        return content


def read_npz(path, ratio: int = MAX_RATIO) -> dict[str, np.ndarray]:
    """The arrays of an .npz file: numbers or strings, no Python objects."""
    with reading(path):
        with zipfile.ZipFile(path) as archive:
            check_size(path, sum(entry.file_size for entry in archive.infolist()), ratio)
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufU":
                raise ValueError(f"{name} must be an array of numbers or strings")
        return arrays
