"""Files that are written whole or not at all, and folders that only one process writes to."""

import contextlib
import fcntl
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path


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
