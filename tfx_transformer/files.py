"""Files: paths that exist, writing whole or not at all, locks, and reading files from others.

Of a file from others every defect is one ValueError of one line that names it, and memory stays
within a small multiple of its size.
"""

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

MAX_RATIO = 8  # bytes in memory for each byte of a file
MAX_PIXEL_RATIO = 64  # the same for files of images, which are compressed better than weights
MIN_BYTES = 2**20  # always allowed
MAX_JSON_BYTES = 2**24


def has_scheme(spec: str) -> bool:
    """Whether a source starts with a scheme, such as "tfds:"; "C:" is a drive."""
    return re.match(r"[A-Za-z]\w+:", spec) is not None


def check_exists(**paths: str) -> None:
    """`check_exists(run=run)`: every path exists, unless it has a scheme."""
    for name, path in paths.items():
        if not has_scheme(path) and not Path(path).exists():
            raise FileNotFoundError(f"{name} must name a file or folder; there is no {path}")


def package_file(package: str, pattern: str) -> Path:
    """The first file that matches in an installed package, which is not imported."""
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob(pattern):
            return path
    raise ModuleNotFoundError(f"{pattern} needs the package {package}: pip install {package}")


def check_new(**paths) -> None:
    """`check_new(folder=folder)`: nothing exists at these paths yet."""
    for name, path in paths.items():
        if Path(path).exists():
            raise ValueError(f"{name} must be new; {path} already exists")


@contextlib.contextmanager
def whole_folder(folder) -> Iterator[Path]:
    """A temporary folder beside `folder`, which gets this name at the end; it must be new."""
    check_new(folder=folder)
    folder = Path(folder)
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def whole_file(path) -> Iterator[Path]:
    """A temporary path beside `path`, which replaces it at the end.

    After an error, a kill or a power failure the old file is there or the new one, never a part.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path, content: str | bytes) -> None:
    """Writes text (UTF-8) or bytes, whole or not at all."""
    with whole_file(path) as temporary:
        data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        temporary.write_bytes(data)


def _sync(path: Path) -> None:
    """Waits until a file, or the entries of a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def lock_folder(folder) -> Iterator[None]:
    """Refuses a folder that another process has locked; the lock ends with its process."""
    path = Path(folder) / "lock"
    descriptor = _open_lock(path)
    try:
        owner = {"pid": os.getpid(), "host": platform.node()}
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(owner).encode())
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def check_unlocked(folder) -> None:
    """Raises if another process has locked the folder."""
    path = Path(folder) / "lock"
    if path.exists():
        os.close(_open_lock(path))


def _open_lock(path: Path) -> int:
    """A file descriptor that holds the lock of the file at `path`."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            owner = path.read_text() or "unknown"
            raise ValueError(f"{path.parent} is in use by another process: {owner}") from None
        if path.exists() and os.fstat(descriptor).st_ino == path.stat().st_ino:
            return descriptor
        os.close(descriptor)  # the owner removed the file in between


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
