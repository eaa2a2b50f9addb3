"""Reads files of `torch.save` without PyTorch, and without running any code in them.

    read_torch("model.pth")["_fc.bias"]         # a NumPy array

Such a file is a pickle, which can call any Python function. Here its opcodes are interpreted one by
one: only plain values and tensors are made, whatever the file contains.
"""

import io
import math
import pickletools
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from tfx_transformer.files import check_size, reading

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # start of a file before PyTorch 1.6
STORAGES: dict[str, Any] = {
    "BFloat16Storage": ml_dtypes.bfloat16,
    "BoolStorage": "?",
    "ByteStorage": "u1",
    "CharStorage": "i1",
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
    "ShortStorage": "<i2",
}
STATE_DICTS = ("state_dict", "model_state_dict", "model", "module", "net", "params")
VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
LENGTHS = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
MARK = object()
MAX_OPCODES = 2**21  # enough for 50,000 tensors
MAX_RANK = 32


class Global(NamedTuple):
    """A class or function that a pickle names; it is never imported."""

    module: str
    name: str


class Storage(NamedTuple):
    kind: str
    key: str


class Tensor(NamedTuple):
    """A tensor in its storage; offset and strides count elements."""

    storage: Storage
    offset: int
    shape: tuple
    strides: tuple


class TensorUnpickler:
    """Interprets a pickle; `storages` maps the key of each storage to its type.

    No value is compared, hashed or printed, except for strings and numbers: the depth of its
    nesting does not matter.
    """

    def __init__(self, file):
        self.file, self.stack, self.memo, self.storages = file, [], {}, {}

    def load(self) -> Any:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(self.file)):
            if opcode.name == "STOP":
                break
            if count > MAX_OPCODES:
                raise ValueError(f"its pickle must not exceed {MAX_OPCODES:,} opcodes")
            self.run(opcode.name, argument)
        return self.stack.pop()

    def run(self, name: str, argument) -> None:
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name in VALUES:
            stack.append(VALUES[name])
        elif name == "MARK":
            stack.append(MARK)
        elif name.startswith(("BININT", "BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT", "LONG1")):
            stack.append(argument)
        elif name in ("EMPTY_DICT", "EMPTY_LIST"):
            stack.append({} if name == "EMPTY_DICT" else [])
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self.memo[len(self.memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name in LENGTHS:
            stack[-LENGTHS[name] :] = [tuple(stack[-LENGTHS[name] :])]
        elif name == "TUPLE":
            stack.append(tuple(self.pop_mark()))
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else self.pop_mark()
            self.top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else self.pop_mark()
            for key, value in zip(items[::2], items[1::2], strict=True):
                if not isinstance(key, str | int):
                    raise ValueError("keys in its pickle must be strings or whole numbers")
                self.top(dict)[key] = value
        elif name == "GLOBAL":
            stack.append(Global(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            name, module = self.pop_string(), self.pop_string()
            stack.append(Global(module, name))
        elif name == "REDUCE":
            arguments = stack.pop()
            stack.append(self.call(stack.pop(), arguments))
        elif name == "BUILD":  # the attributes of a dict, such as _metadata
            stack.pop()
        elif name == "BINPERSID":
            stack.append(self.storage(*stack.pop()[1:3]))
        else:
            raise ValueError(f"only tensors are read from a pickle; got the opcode {name}")

    def pop_mark(self) -> list:
        """Removes all values behind the last mark."""
        items = []
        while (item := self.stack.pop()) is not MARK:
            items.append(item)
        return items[::-1]

    def pop_string(self) -> str:
        return str(self.top(str) and self.stack.pop())

    def top(self, kind):
        if not isinstance(self.stack[-1], kind):
            raise ValueError(f"a {kind.__name__} is missing in its pickle")
        return self.stack[-1]

    def call(self, function, arguments):
        if function == Global("collections", "OrderedDict") and not arguments:
            return {}
        if function == Global("torch._utils", "_rebuild_tensor_v2"):
            storage, offset, shape, strides = arguments[:4]
            if not isinstance(storage, Storage) or len(shape) > MAX_RANK or len(strides) > MAX_RANK:
                raise ValueError(f"a tensor must have a storage and at most {MAX_RANK} axes")
            if not all(isinstance(x, int) for x in (offset, *shape, *strides)):
                raise ValueError("sizes of a tensor must be whole numbers")
            return Tensor(storage, offset, tuple(shape), tuple(strides))
        if function == Global("torch._utils", "_rebuild_parameter"):
            return arguments[0]
        got = ".".join(function) if isinstance(function, Global) else type(function).__name__
        raise ValueError(f"only tensors are read from a pickle; got {got}")

    def storage(self, kind, key) -> Storage:
        if not isinstance(kind, Global) or kind.module != "torch" or kind.name not in STORAGES:
            got = kind.name if isinstance(kind, Global) else type(kind).__name__
            raise ValueError(f"only tensors are read from a pickle; got a storage {got}")
        if not isinstance(key, str):
            raise ValueError("the key of a storage must be a string")
        self.storages[key] = np.dtype(STORAGES[kind.name])
        return Storage(kind.name, key)


def read_torch(path: str | Path) -> dict[str, np.ndarray]:
    """The tensors of a state dict by name; the dict may be an entry of a larger checkpoint."""
    with reading(path):
        with open(path, "rb") as file:
            magic = file.read(len(LEGACY))
            if magic.startswith(b"PK"):
                content, data = _read_zip(file, path)
            elif magic == LEGACY:
                content, data = _read_legacy(file)
            else:
                raise ValueError(f"path must be a file of torch.save; got {path}")
        tensors = find_state_dict(content)
        sizes = [math.prod(x.shape) * data[x.storage.key].itemsize for x in tensors.values()]
        check_size(path, sum(sizes))
        return {name: make_array(name, x, data) for name, x in tensors.items()}


def find_state_dict(content) -> dict[str, Tensor]:
    """The dict of tensors: the content, or what it has under a usual name."""
    for part in (
        content,
        *(content.get(name) for name in STATE_DICTS if isinstance(content, dict)),
    ):
        if isinstance(part, dict) and all(isinstance(x, Tensor) for x in part.values()):
            is_parallel = all(str(name).startswith("module.") for name in part)
            return {str(name)[7 * is_parallel :]: tensor for name, tensor in part.items()}
    raise ValueError(
        f"it must contain a state dict, a dict of tensors, alone or as {', '.join(STATE_DICTS)}"
    )


def make_array(name: str, tensor: Tensor, data: dict[str, np.ndarray]) -> np.ndarray:
    storage = data[tensor.storage.key]
    steps = [step * storage.itemsize for step in tensor.strides]
    offset = tensor.offset * storage.itemsize
    try:  # NumPy checks the bounds
        return np.ndarray(tensor.shape, storage.dtype, storage, offset, steps)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} exceeds its data") from error


def _read_zip(file, path):
    """An archive of NAME/data.pkl, and of NAME/data/KEY for each storage."""
    with zipfile.ZipFile(file) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        (pickled,) = (name for name in sizes if name.endswith("/data.pkl"))
        check_size(path, sizes[pickled])
        unpickler = TensorUnpickler(io.BytesIO(archive.read(pickled)))
        content, folder = unpickler.load(), pickled.removesuffix(".pkl")
        names = {key: f"{folder}/{key}" for key in unpickler.storages}
        check_size(path, sum(sizes[name] for name in names.values()))
        return content, {
            key: np.frombuffer(archive.read(names[key]), dtype)
            for key, dtype in unpickler.storages.items()
        }


def _read_legacy(file):
    """Pickles of the version, the system, the tensors and the keys of the storages; then each
    storage: its length as eight bytes, and its elements."""
    file = io.BytesIO(file.read())
    for _ in range(2):
        TensorUnpickler(file).load()
    unpickler, data = TensorUnpickler(file), {}
    content = unpickler.load()
    keys = TensorUnpickler(file).load()
    if not all(isinstance(key, str) for key in keys):
        raise ValueError("the keys of storages must be strings")
    for key in keys:
        length, dtype = int.from_bytes(file.read(8), "little"), unpickler.storages[key]
        data[key] = np.frombuffer(file.read(length * dtype.itemsize), dtype)
    return content, data
