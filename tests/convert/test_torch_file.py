"""Files of PyTorch are read as PyTorch reads them, without running any code.

`fixtures/make_torch_fixtures.py` wrote the two files.
"""

import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert import torch_file
from tfx_transformer.convert.torch_file import LEGACY, read_torch

FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture(params=["torch.pth", "torch_legacy.pth"])
def path(request):
    return FIXTURES / request.param


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def write(folder, content, legacy=False, keys=(), data=None, **options):
    """Writes the content to a file in one of the two formats, with the data of storage "0"."""
    data = np.arange(6, dtype="float32").tobytes() if data is None else data
    path = folder / "model.pth"
    pickled = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
    if legacy:
        rest = (pickle.dumps(1001), pickle.dumps({}), pickled, pickle.dumps(list(keys)))
        path.write_bytes(LEGACY + b"".join(rest))
    else:
        with zipfile.ZipFile(path, "w", **options) as archive:
            archive.writestr("model/data.pkl", pickled)
            archive.writestr("model/data/0", data)
    return path


def push(value):
    """Opcodes that make a value."""
    return pickle.dumps(value, protocol=2)[2:-1]


def tensor(kind, offset, shape, strides):
    """The pickle of {"x": a tensor in storage "0"}, opcode by opcode."""
    storage = b"(" + push("storage") + kind + push("0") + push("cpu") + push(6) + b"tQ"
    arguments = b"(" + storage + push(offset) + push(shape) + push(strides) + b"t"
    return b"\x80\x02}" + push("x") + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


def nested(pickled, *names):
    """The pickle of {name: {name: content}}, for a pickle of the content."""
    for name in names[::-1]:
        pickled = b"\x80\x02}" + push(name) + pickled[2:-1] + b"s."
    return pickled


FLOAT = b"ctorch\nFloatStorage\n"


def test_every_tensor_is_read_with_its_shape_and_dtype(path):
    arrays = read_torch(path)
    numbers = np.arange(24, dtype="float32").reshape(2, 3, 4)
    expected = {
        "whole": numbers,
        "turned": numbers.transpose(2, 0, 1),
        "part": np.arange(5, 9, dtype="float32"),
        "count": np.array(7),
        "half": np.array([0.5, -2], "float16"),
    }
    assert list(arrays) == list(expected)
    for name, array in expected.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array, strict=True)


@pytest.mark.parametrize("legacy", [False, True])
def test_no_code_in_a_file_is_run(tmp_path, legacy):
    trap = tmp_path / "trap"
    for call in (Call(os.mkdir, str(trap)), Call(eval, f"__import__('os').mkdir({str(trap)!r})")):
        with pytest.raises(ValueError, match="only tensors are read from a pickle; got "):
            read_torch(write(tmp_path, {"x": call}, legacy))
    assert not trap.exists()


def test_unknown_storages_and_tensors_beyond_their_storage_are_refused(tmp_path):
    good = tensor(FLOAT, 1, (2, 2), (3, 1))
    np.testing.assert_array_equal(
        read_torch(write(tmp_path, good, False))["x"], [[1.0, 2.0], [4.0, 5.0]]
    )
    for bounds in ((0, (7,), (1,)), (4, (3,), (1,)), (1, (3,), (-1,)), (-1, (2,), (1,))):
        with pytest.raises(ValueError, match="model.pth is damaged or .*: x exceeds its data"):
            read_torch(write(tmp_path, tensor(FLOAT, *bounds), False))
    objects = pickle.dumps("O", protocol=2)[2:-1]
    with pytest.raises(ValueError, match="only tensors are read from a pickle; got a storage str"):
        read_torch(write(tmp_path, tensor(objects, 0, (1,), (1,)), False))


def test_a_truncated_file_is_refused(tmp_path):
    short = tmp_path / "short.pth"
    short.write_bytes((FIXTURES / "torch_legacy.pth").read_bytes()[:-60])
    with pytest.raises(ValueError, match="short.pth is damaged or not supported: "):
        read_torch(short)


def test_other_files_are_refused(tmp_path):
    other = tmp_path / "notes.pth"
    other.write_text("no weights")
    with pytest.raises(ValueError, match="path must be a file of torch.save; got .*notes.pth"):
        read_torch(other)
    for content in ([1, 2], {"state": {}}, {"model": {"x": 1}}):
        with pytest.raises(ValueError, match="it must contain a state dict"):
            read_torch(write(tmp_path, content, legacy=True))


@pytest.mark.parametrize(
    "kind, values",
    [
        ("BFloat16", np.array([0x3F80, 0xC000, 0x4049], "<u2")),
        ("Bool", np.array([True, False, True])),
        ("Byte", np.array([0, 7, 255], "u1")),
        ("Char", np.array([0, 7, -128], "i1")),
        ("Short", np.array([0, 7, -32768], "<i2")),
    ],
)
def test_storages_of_other_types_are_read(kind, values, tmp_path):
    content = tensor(f"ctorch\n{kind}Storage\n".encode(), 0, (3,), (1,))
    array = read_torch(write(tmp_path, content, data=values.tobytes()))["x"]
    expected = [1.0, -2.0, 3.140625] if kind == "BFloat16" else values.tolist()
    np.testing.assert_array_equal(array.astype("float32"), np.array(expected, "float32"))


@pytest.mark.parametrize("name", ["model", "state_dict", "model_state_dict"])
def test_a_state_dict_inside_of_a_checkpoint_is_found(name, tmp_path):
    flat = tensor(FLOAT, 0, (6,), (1,))
    path = write(tmp_path, nested(flat, name))
    assert list(read_torch(path)) == ["x"]
    parallel = flat.replace(push("x")[:-2], push("module.x")[:-2])
    assert list(read_torch(write(tmp_path, nested(parallel, name)))) == ["x"]
    with pytest.raises(ValueError, match="must contain a state dict"):
        read_torch(write(tmp_path, nested(flat, "other", "model")))


DEPTH = 100_000
HOSTILE = {  # a pickle that crashed the interpreter or took gigabytes, by what it does
    "nested tuples": b"\x80\x02" + b")" + b"\x85" * DEPTH + b".",
    "nested key": b"\x80\x02}" + b")" + b"\x85" * DEPTH + b"K\x01s.",
    "nested storage key": b"\x80\x02"
    + push("storage")
    + FLOAT
    + b")"
    + b"\x85" * DEPTH
    + b"\x87Q.",
    "nested kind": b"\x80\x02" + push("storage") + b")" + b"\x85" * DEPTH + push("0") + b"\x87Q.",
    "shared halves": b"\x80\x02" + b")q\x00" + b"h\x00h\x00\x86q\x00" * 64 + b"R.",
    "memo": b"\x80\x02]r\xff\xff\xff\x07.",
    "long string": b"\x80\x02X\xff\xff\xff\x7f.",
    "broadcast": tensor(FLOAT, 0, (2**28,), (0,)),
    "huge sizes": tensor(FLOAT, 2**62, (2**62, 2**62), (2**62, 1)),
}


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_pickle_is_one_error_and_little_memory(content, legacy, tmp_path):
    path = write(tmp_path, content, legacy, keys=["0"])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"^[^\n]*model.pth[^\n]*$"):
            read_torch(path)
        assert tracemalloc.get_traced_memory()[1] < 100 * path.stat().st_size + 2**21
    finally:
        tracemalloc.stop()


def test_a_pickle_of_very_many_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(torch_file, "MAX_OPCODES", 100)
    with pytest.raises(ValueError, match="model.pth .*: its pickle must not exceed 100 opcodes"):
        read_torch(write(tmp_path, b"\x80\x02" + b"}" * 102 + b"."))


def test_an_archive_that_expands_is_refused_before_it_is_read(tmp_path):
    content = tensor(FLOAT, 0, (2**20,), (1,))
    deflated = {"compression": zipfile.ZIP_DEFLATED}
    path = write(tmp_path, content, data=bytes(2**24), **deflated)
    with pytest.raises(ValueError, match="must not expand to 16,777,216 bytes"):
        read_torch(path)
    path = write(tmp_path, content + bytes(2**24), **deflated)
    with pytest.raises(ValueError, match="must not expand to 16,777,"):
        read_torch(path)
    path = write(tmp_path, tensor(FLOAT, 0, (6,), (1,)), **deflated)
    np.testing.assert_array_equal(read_torch(path)["x"], np.arange(6, dtype="float32"))
