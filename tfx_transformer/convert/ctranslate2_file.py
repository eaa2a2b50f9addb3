"""Reads model.bin of CTranslate2 without CTranslate2.

    version, name of the kind of model, its revision                    u32, string, u32
    number of arrays; of each its name, shape and numbers               u32; …
    number of names that mean another array; both names of each         u32; …

All is little-endian; a string is its length (u16) with a 0 at its end. Files before version 4 give
the size of a number instead of its type, and those before version 3 have no second names.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LAST_VERSION = 6
TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "bfloat16")
BY_SIZE = {1: "<i1", 2: "<i2", 4: "<f4"}
INT16_SCALE = 1000.0  # of files that have none


@dataclass(frozen=True)
class ModelFile:
    """What is in a file: the kind of model and its revision, and its arrays by name."""

    kind: str
    revision: int
    arrays: dict[str, np.ndarray]


class Reader:
    """Takes one thing after the other out of bytes."""

    def __init__(self, content: bytes):
        self.content, self.place = content, 0

    def take(self, count: int) -> bytes:
        begin, self.place = self.place, self.place + count
        if self.place > len(self.content):
            raise ValueError(f"it is cut short: {count} bytes are missing at {begin}")
        return self.content[begin : self.place]

    def number(self, kind: str) -> int:
        """B, H or I: of one, two or four bytes."""
        return struct.unpack(f"<{kind}", self.take(struct.calcsize(kind)))[0]

    def string(self) -> str:
        return self.take(self.number("H"))[:-1].decode()

    def array(self, version: int) -> np.ndarray:
        shape = [self.number("I") for _ in range(self.number("B"))]
        if version >= 4:
            dtype = TYPES[self.number("B")]
            content = self.take(self.number("I"))
        else:
            size = self.number("B")
            dtype, content = BY_SIZE[size], self.take(size * self.number("I"))
        if dtype == "bfloat16":  # the upper half of a float
            halves = np.frombuffer(content, "<u2").astype("<u4") << 16
            return halves.view("<f4").reshape(shape)
        return np.frombuffer(content, dtype).reshape(shape)


def read_model_file(path: str | Path) -> ModelFile:
    """A model.bin; weights that are whole numbers are floats again, as far as they go."""
    reader = Reader(Path(path).read_bytes())
    try:
        version = reader.number("I")
        if not 2 <= version <= LAST_VERSION:
            raise ValueError(f"its version must be 2 … {LAST_VERSION}; got {version}")
        kind, revision = reader.string(), reader.number("I")
        arrays = {}
        for _ in range(reader.number("I")):
            name = reader.string()
            arrays[name] = reader.array(version)
        arrays = restore(arrays)
        for _ in range(reader.number("I") if version >= 3 else 0):
            name = reader.string()
            arrays[name] = arrays[reader.string()]
    except (ValueError, KeyError, IndexError) as error:
        raise ValueError(f"{path} is no model of CTranslate2 that can be read: {error}") from error
    return ModelFile(kind, revision, arrays)


def restore(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Divides whole numbers by their scales, one for all (int16) or one for each row (int8)."""
    restored = {}
    for name, array in arrays.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in arrays:
            continue
        if name.endswith("weight") and array.dtype in ("int8", "int16"):
            is_word = array.dtype == "int16"
            scale = arrays.get(f"{name}_scale", INT16_SCALE) if is_word else arrays[f"{name}_scale"]
            scale = np.asarray(scale, "float32")
            array = array.astype("float32") / scale.reshape(-1, 1)
        restored[name] = array
    return restored
