"""Paths that exist, files and folders that are written whole or not at all, and locks."""

import contextlib
import fcntl
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path


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
