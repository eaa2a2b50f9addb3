"""Rows of different lengths in memory-mapped files: texts, and token ids.

Only what is used is read, into the memory of the disk cache, which all processes of a machine
share. `<name>.<type>` has the values of all rows, one after the other; `<name>.starts`, which is
written last, has where each row starts, and the end of the last.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from tfx_transformer.files import whole_file


class Rows:
    """N rows of values, or some of them in any order.

    Args:
        values: of all rows, one after the other.
        starts: (N + 1) int64.
        selected: indices of the rows; None for all.
    """

    def __init__(self, values: np.ndarray, starts: np.ndarray, selected: np.ndarray | None = None):
        self.values, self.starts, self.selected = values, starts, selected

    def __len__(self) -> int:
        return len(self.starts) - 1 if self.selected is None else len(self.selected)

    def select(self, rows: np.ndarray) -> "Rows":
        """The rows with these indices."""
        chosen = rows if self.selected is None else self.selected[rows]
        return Rows(self.values, self.starts, chosen.astype("int32"))

    def lengths(self) -> np.ndarray:
        """(N) int32."""
        lengths = np.diff(self.starts).astype("int32")
        return lengths if self.selected is None else lengths[self.selected]

    def take(self, rows: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """The first values, at most so many, of each of some rows: flat, and their lengths (B)."""
        rows = rows if self.selected is None else self.selected[rows]
        first = self.starts[rows]
        last = np.minimum(self.starts[rows + 1], first + most)
        parts = [self.values[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return np.concatenate(parts).astype("int32"), last - first


class Texts(Sequence[str]):
    """Strings whose UTF-8 bytes are rows; those in files know the `path` without its endings."""

    def __init__(self, rows: Rows, path: Path):
        self.rows, self.path = rows, path

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = range(len(self))[index]  # negative ones count from the end
        row = row if self.rows.selected is None else self.rows.selected[row]
        return (
            self.rows.values[self.rows.starts[row] : self.rows.starts[row + 1]].tobytes().decode()
        )

    def all_in_blocks(self, size: int) -> Iterator[list[str]]:
        """So many texts at a time of all in the files, not only the selected ones."""
        every = Texts(Rows(self.rows.values, self.rows.starts), self.path)
        return (every[i : i + size] for i in range(0, len(every), size))

    def select(self, rows: np.ndarray) -> "Texts":
        """The texts with these indices."""
        return Texts(self.rows.select(rows), self.path)


def read_rows(path: Path, kind: str) -> Rows:
    """The rows in the files of `write_rows`; both are mapped into memory, not read."""
    return Rows(_map(path, kind), _map(path, "int64", ".starts"))


def _map(path: Path, kind: str, ending: str = "") -> np.ndarray:
    file = path.with_name(path.name + (ending or f".{kind}"))
    if not file.stat().st_size:  # cannot be mapped
        return np.zeros(0, kind)
    return np.asarray(np.memmap(file, kind, "r"))


def has_rows(path: Path) -> bool:
    return path.with_name(f"{path.name}.starts").exists()


@contextlib.contextmanager
def write_rows(path: Path, kind: str) -> Iterator[Callable[[np.ndarray, np.ndarray], None]]:
    """A function that writes the next rows: their values, flat, and their lengths."""
    with (
        whole_file(path.with_name(f"{path.name}.starts")) as starts_path,
        whole_file(path.with_name(f"{path.name}.{kind}")) as values_path,
        starts_path.open("wb") as starts,
        values_path.open("wb") as values,
    ):
        end = 0
        starts.write(np.int64(end).tobytes())

        def add(own: np.ndarray, lengths: np.ndarray) -> None:
            nonlocal end
            ends = end + np.cumsum(lengths, dtype="int64")
            starts.write(ends.tobytes())
            values.write(own.astype(kind, copy=False).tobytes())
            end += len(own)

        yield add


def text_block(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of texts, for `write_rows`."""
    encoded = [text.encode() for text in texts]
    return np.frombuffer(b"".join(encoded), "uint8"), np.fromiter(map(len, encoded), "int64")


def cached_array(folder: Path, name: str, make) -> np.ndarray:
    """The array of `make()`, which is called if the folder does not have it; mapped into memory."""
    path = folder / f"{name}.npy"
    with locked(folder):
        if not path.exists():
            with whole_file(path) as temporary:
                np.save(temporary, make())
    return np.asarray(np.load(path, mmap_mode="r"))


def hash_files(paths: Iterable[Path], *options) -> str:
    """A short hash of the content of files, and of options."""
    total = hashlib.sha256(repr(options).encode())
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"no such file: {path}")
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


@contextlib.contextmanager
def filled(folder: Path, finished: Path) -> Iterator[bool]:
    """Whether the folder must be filled, which ends with writing the file `finished`.

    Other processes wait for it. An error removes the folder, and its parents if they are new.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with locked(folder):
        if finished.exists():
            yield False
            return
        try:
            yield True
        except BaseException:
            shutil.rmtree(missing[-1] if missing else folder, ignore_errors=True)
            raise


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Waits until no other process is in this block with the same folder, which it makes."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
