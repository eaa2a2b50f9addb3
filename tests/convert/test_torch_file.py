"""Files of PyTorch are read as PyTorch reads them, without running any code.

`fixtures/make_torch_fixtures.py` wrote the two files.
"""

import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

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


def write(folder, content, legacy, keys=()):
    """Writes the content to a file in one of the two formats."""
    path = folder / "model.pth"
    pickled = content if isinstance(content, bytes) else pickle.dumps(content, protocol=2)
    if legacy:
        rest = (pickle.dumps(1001), pickle.dumps({}), pickled, pickle.dumps(list(keys)))
        path.write_bytes(LEGACY + b"".join(rest))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("model/data.pkl", pickled)
            archive.writestr("model/data/0", np.arange(6, dtype="float32").tobytes())
    return path


def tensor(kind, offset, shape, strides):
    """The pickle of {"x": a tensor in storage "0"}, opcode by opcode."""

    def push(value):
        return pickle.dumps(value, protocol=2)[2:-1]

    storage = b"(" + push("storage") + kind + push("0") + push("cpu") + push(6) + b"tQ"
    arguments = b"(" + storage + push(offset) + push(shape) + push(strides) + b"t"
    return b"\x80\x02}" + push("x") + b"ctorch._utils\n_rebuild_tensor_v2\n" + arguments + b"Rs."


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
        with pytest.raises(ValueError, match="is truncated or damaged: x exceeds its data"):
            read_torch(write(tmp_path, tensor(FLOAT, *bounds), False))
    objects = pickle.dumps("O", protocol=2)[2:-1]
    with pytest.raises(ValueError, match="only tensors are read from a pickle; got a storage 'O'"):
        read_torch(write(tmp_path, tensor(objects, 0, (1,), (1,)), False))


def test_a_truncated_file_is_refused(tmp_path):
    short = tmp_path / "short.pth"
    short.write_bytes((FIXTURES / "torch_legacy.pth").read_bytes()[:-60])
    with pytest.raises(ValueError, match="short.pth is truncated or damaged: whole exceeds"):
        read_torch(short)


def test_other_files_are_refused(tmp_path):
    other = tmp_path / "notes.pth"
    other.write_text("no weights")
    with pytest.raises(ValueError, match="path must be a file of torch.save; got .*notes.pth"):
        read_torch(other)
    for content in ([1, 2], {"state": {}}):
        with pytest.raises(ValueError, match="path must contain a state dict"):
            read_torch(write(tmp_path, content, legacy=True))
