"""Reads model.bin of CTranslate2 without the library.

    version, name of the model specification, its revision              u32, string, u32
    number of arrays; for each its name, shape and elements             u32; …
    number of aliases; for each its name and the name of its array      u32; …

All is little-endian; a string is its length (u16) and its bytes with a final 0. Files before
version 4 store the size of an element instead of its type; those before version 3 have no aliases.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfx_transformer.files import reading

LAST_VERSION = 6
TYPES = ("<f4", "<i1", "<i2", "<i4", "<f2", "bfloat16")
BY_SIZE = {1: "<i1", 2: "<i2", 4: "<f4"}
INT16_SCALE = 1000.0  # of files that store none


@dataclass(frozen=True)
class ModelFile:
    """The content of a file: the model specification, its revision, and arrays by name."""

    kind: str
    revision: int
    arrays: dict[str, np.ndarray]


class Reader:
    """Reads values one after the other from bytes."""

    def __init__(self, content: bytes):
        self.content, self.offset = content, 0

    def read(self, count: int) -> bytes:
        start, self.offset = self.offset, self.offset + count
        if self.offset > len(self.content):
            raise ValueError(f"it is truncated: {count} bytes are missing at {start}")
        return self.content[start : self.offset]

    def number(self, kind: str) -> int:
        """An unsigned integer: "B", "H" or "I", of one, two or four bytes."""
        return struct.unpack(f"<{kind}", self.read(struct.calcsize(kind)))[0]

    def string(self) -> str:
        return self.read(self.number("H"))[:-1].decode()

    def array(self, version: int) -> np.ndarray:
        shape = [self.number("I") for _ in range(self.number("B"))]
        if version >= 4:
            dtype = TYPES[self.number("B")]
            content = self.read(self.number("I"))
        else:
            size = self.number("B")
            dtype, content = BY_SIZE[size], self.read(size * self.number("I"))
        if dtype == "bfloat16":  # the upper half of a float32
            halves = np.frombuffer(content, "<u2").astype("<u4") << 16
            return halves.view("<f4").reshape(shape)
        return np.frombuffer(content, dtype).reshape(shape)


def read_model_file(path: str | Path) -> ModelFile:
    """Reads a model.bin; quantized weights are converted to float32."""
    reader = Reader(Path(path).read_bytes())
    with reading(path):
        version = reader.number("I")
        if not 2 <= version <= LAST_VERSION:
            raise ValueError(f"its version must be 2 … {LAST_VERSION}; got {version}")
        kind, revision = reader.string(), reader.number("I")
        arrays = {}
        for _ in range(reader.number("I")):
            name = reader.string()
            arrays[name] = reader.array(version)
        arrays = dequantize(arrays)
        for _ in range(reader.number("I") if version >= 3 else 0):
            name = reader.string()
            arrays[name] = arrays[reader.string()]
    return ModelFile(kind, revision, arrays)


def dequantize(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Divides integers by their scale, one per array (int16) or one per row (int8)."""
    floats = {}
    for name, array in arrays.items():
        if name.endswith("_scale") and name.removesuffix("_scale") in arrays:
            continue
        if name.endswith("weight") and array.dtype in ("int8", "int16"):
            default = {f"{name}_scale": INT16_SCALE} if array.dtype == "int16" else {}
            scale = np.asarray((default | arrays)[f"{name}_scale"], "float32")
            if scale.size not in (1, len(array)):
                raise ValueError(f"{name}_scale must have 1 or {len(array)} values")
            array = array.astype("float32") / scale.reshape(-1, *[1] * (array.ndim - 1))
        floats[name] = array
    return floats
