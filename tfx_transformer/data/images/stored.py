"""Folders of more images than fit in memory: checked once, and each read when it is needed."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np

from tfx_transformer.data.images.files import read_file, to_decodable
from tfx_transformer.data.stored import (
    Texts,
    filled,
    hash_files,
    read_rows,
    text_block,
    write_rows,
)
from tfx_transformer.files import write_file

IN_MEMORY = 2**30  # bytes of the images of a folder that are kept in memory
READERS = 16  # threads that read the images of a batch
CHUNK = 256  # files that a thread lists at a time


class ImageFiles(Sequence[bytes]):
    """Encoded images of a folder, each read on access.

    Args:
        folder: of the images.
        names: relative paths of N images.
        converted: (N) whether TensorFlow decodes another form of the image.
        max_pixels: of those that are converted.
    """

    def __init__(self, folder: Path, names: Sequence[str], converted: np.ndarray, max_pixels: int):
        self.folder, self.names, self.converted = folder, names, converted
        self.max_pixels = max_pixels

    def __len__(self) -> int:
        return len(self.converted)

    def __getitem__(self, index):
        if isinstance(index, slice):
            names, converted = self.names[index], self.converted[index]
            return ImageFiles(self.folder, names, converted, self.max_pixels)
        data = read_file(self.folder / self.names[index])
        return to_decodable(data, self.max_pixels) if self.converted[index] else data

    @cached_property
    def readers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(READERS, "images")

    def take(self, rows: Sequence[int]) -> list[bytes]:
        """The images of some rows, read at the same time."""
        return list(self.readers.map(self.__getitem__, rows))


def list_files(folder: Path, names: list[str]) -> tuple[int, str]:
    """The bytes of all files of a folder, and a hash of their names, sizes and times."""
    files = sorted(name for name in names if not name.endswith("/"))

    def sizes_and_times(first: int) -> list[tuple[int, int]]:
        found = (os.stat(f"{folder}/{name}") for name in files[first : first + CHUNK])
        return [(x.st_size, x.st_mtime_ns) for x in found]

    with ThreadPoolExecutor(READERS) as pool:
        parts = pool.map(sizes_and_times, range(0, len(files), CHUNK))
        stats = np.array([row for part in parts for row in part], "int64").reshape(-1, 2)
    listed = "\n".join(files).encode("utf-8", "surrogateescape")
    return int(stats[:, 0].sum()), hash_files([], listed, stats.tobytes())


def stored_images(
    folder: Path,
    cache: Path,
    max_pixels: int,
    find: Callable[[], tuple[dict[str, bool], Sequence[int], list[str], dict[str, str]]],
) -> tuple[ImageFiles, np.ndarray, list[str], dict[str, str]]:
    """Images, labels, names of the classes, and the skipped files, from the files of a cache.

    Args:
        folder: of the images.
        cache: a folder for one split; filled by the first call.
        max_pixels: as in `load_images`.
        find: {name: whether it must be converted}, their labels, names of classes, skipped files.
    """
    finished = cache / "classes.json"
    with filled(cache, finished) as is_new:
        if is_new:
            converted, labels, class_names, skipped = find()
            with write_rows(cache / "names", "uint8") as add:
                add(*text_block(list(converted)))
            np.save(cache / "converted.npy", np.array(list(converted.values()), bool))
            np.save(cache / "labels.npy", np.asarray(labels, "int32"))
            write_file(finished, json.dumps([class_names, skipped], ensure_ascii=False))
    names = Texts(read_rows(cache / "names", "uint8"), cache / "names")
    converted, labels = (np.load(cache / f"{x}.npy") for x in ("converted", "labels"))
    class_names, skipped = json.loads(finished.read_text())
    return ImageFiles(folder, names, converted, max_pixels), labels, class_names, skipped
