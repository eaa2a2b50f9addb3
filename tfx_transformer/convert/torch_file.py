"""Reads files of `torch.save` without PyTorch, and without running any code in them.

    read_torch("model.pth")["_fc.bias"]         # a NumPy array

Such a file is a pickle, which can call any Python function. Only a flat dict of tensors is read
here; a file with anything else is refused.
"""

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import numpy as np

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # start of a file before PyTorch 1.6
STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
}


class Tensor(NamedTuple):
    """A tensor in its storage: the storage's type and key; offset and strides count elements."""

    kind: str
    key: str
    offset: int
    shape: tuple
    strides: tuple


class TensorUnpickler(pickle.Unpickler):
    """Reads every tensor as a `Tensor`; `kinds` maps the key of each storage to its type."""

    def __init__(self, file):
        super().__init__(file)
        self.kinds = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: Tensor(
                *storage, offset, shape, strides
            )
        if module == "torch" and name in STORAGES:
            return name
        raise ValueError(f"only tensors are read from a pickle; got {module}.{name}")

    def persistent_load(self, storage):
        _, kind, key = storage[:3]  # then its device and length, which are not used
        if kind not in STORAGES:
            raise ValueError(f"only tensors are read from a pickle; got a storage {kind!r}")
        self.kinds[key] = kind
        return kind, key


def read_torch(path: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a state dict by name."""
    with open(path, "rb") as file:
        magic = file.read(len(LEGACY))
        if magic.startswith(b"PK"):
            content, data = _read_zip(file)
        elif magic == LEGACY:
            content, data = _read_legacy(file)
        else:
            raise ValueError(f"path must be a file of torch.save; got {path}")
    if not isinstance(content, dict) or not all(isinstance(x, Tensor) for x in content.values()):
        raise ValueError(f"path must contain a state dict, a flat dict of tensors; got {path}")
    arrays = {}
    for name, (kind, key, offset, shape, strides) in content.items():
        dtype = np.dtype(STORAGES[kind])
        steps = [step * dtype.itemsize for step in strides]
        try:  # NumPy checks the bounds
            arrays[name] = np.ndarray(shape, dtype, data[key], offset * dtype.itemsize, steps)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path} is truncated or damaged: {name} exceeds its data") from error
    return arrays


def _read_zip(file):
    """An archive of NAME/data.pkl, and of NAME/data/KEY for each storage."""
    with zipfile.ZipFile(file) as archive:
        (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
        unpickler = TensorUnpickler(archive.open(pickled))
        content, folder = unpickler.load(), pickled.removesuffix(".pkl")
        return content, {key: archive.read(f"{folder}/{key}") for key in unpickler.kinds}


def _read_legacy(file):
    """Pickles of the version, the system, the tensors and the keys of the storages; then each
    storage: its length as eight bytes, and its elements."""
    for _ in range(2):
        TensorUnpickler(file).load()
    unpickler, data = TensorUnpickler(file), {}
    content = unpickler.load()
    for key in TensorUnpickler(file).load():
        length = int.from_bytes(file.read(8), "little")
        data[key] = file.read(length * np.dtype(STORAGES[unpickler.kinds[key]]).itemsize)
    return content, data
