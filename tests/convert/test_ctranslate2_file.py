"""Files written here byte by byte, as the format defines, are read; damaged ones are refused."""

import struct

import numpy as np
import pytest

from tfx_transformer.convert.ctranslate2_file import read_model_file

TYPES = ["float32", "int8", "int16", "int32", "float16"]


def string(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def write(path, arrays, version=6, aliases=(), kind="TransformerSpec", revision=7):
    """Writes arrays by name; a pair of bytes and shape is bfloat16."""
    content = struct.pack("<I", version) + string(kind) + struct.pack("<I", revision)
    content += struct.pack("<I", len(arrays))
    for name, array in arrays.items():
        is_bytes = isinstance(array, tuple)
        data, shape = array if is_bytes else (np.asarray(array).tobytes(), np.shape(array))
        content += string(name) + struct.pack(f"<B{len(shape)}I", len(shape), *shape)
        if version >= 4:
            type_id = 5 if is_bytes else TYPES.index(str(np.asarray(array).dtype))
            content += struct.pack("<BI", type_id, len(data))
        else:
            array = np.asarray(array)
            content += struct.pack("<BI", array.itemsize, array.size)
        content += data
    if version >= 3:
        content += struct.pack("<I", len(aliases))
        content += b"".join(string(a) + string(b) for a, b in aliases)
    path.write_bytes(content)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.bin"


@pytest.mark.parametrize("version", [2, 3, 4, 6])
def test_names_shapes_and_values_are_read(version, path, draw):
    arrays = {"a/weight": draw(3, 5), "b": draw(4), "flag": np.int8(1), "scale": np.float32(2.5)}
    file = read_model_file(write(path, arrays, version, kind="Some", revision=3))
    assert (file.kind, file.revision) == ("Some", 3) and list(file.arrays) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(file.arrays[name], array)


def test_an_alias_is_the_same_array(path, draw):
    file = read_model_file(write(path, {"a": draw(2, 3)}, aliases=[("b", "a")]))
    np.testing.assert_array_equal(file.arrays["b"], file.arrays["a"])


def test_int8_weights_are_divided_by_the_scale_of_their_row(path, draw):
    weight = draw(3, 5)
    scale = 127 / np.abs(weight).max(axis=1)
    integers = np.rint(weight * scale[:, None]).astype("int8")
    arrays = {"a/weight": integers, "a/weight_scale": scale.astype("float32")}
    loaded = read_model_file(write(path, arrays, aliases=[("b/weight", "a/weight")])).arrays
    assert list(loaded) == ["a/weight", "b/weight"] and loaded["a/weight"].dtype == "float32"
    np.testing.assert_array_equal(loaded["b/weight"], loaded["a/weight"])
    np.testing.assert_allclose(loaded["a/weight"], integers / scale[:, None], rtol=1e-5)
    np.testing.assert_allclose(loaded["a/weight"], weight, atol=0.02)


@pytest.mark.parametrize("scale", [512.0, None])
def test_int16_weights_are_divided_by_one_scale(scale, path):
    integers = np.array([[100, -200], [300, 5]], "int16")
    arrays = {"a/weight": integers} | ({"a/weight_scale": np.float32(scale)} if scale else {})
    loaded = read_model_file(write(path, arrays, version=2)).arrays
    np.testing.assert_allclose(loaded["a/weight"], integers / (scale or 1000.0), rtol=1e-6)


def test_float16_and_bfloat16_are_read(path, draw):
    array = draw(3, 4)
    upper = (array.view("uint32") >> 16).astype("uint16")
    arrays = {"half": array.astype("float16"), "brain": (upper.tobytes(), (3, 4))}
    loaded = read_model_file(write(path, arrays)).arrays
    np.testing.assert_array_equal(loaded["half"], array.astype("float16"))
    np.testing.assert_allclose(loaded["brain"], array, rtol=1e-2)
    assert loaded["brain"].dtype == "float32"


@pytest.mark.parametrize("version", [1, 7])
def test_another_version_is_refused(version, path):
    with pytest.raises(ValueError, match=f"its version must be 2 … 6; got {version}"):
        read_model_file(write(path, {"a": np.zeros(2, "float32")}, version))


def test_int8_weights_without_a_scale_are_refused(path):
    with pytest.raises(ValueError, match="it has no 'a/weight_scale'"):
        read_model_file(write(path, {"a/weight": np.ones((2, 3), "int8")}))


def test_a_damaged_file_is_refused(path, draw):
    content = write(path, {"a": draw(2, 3)}, aliases=[("b", "a")]).read_bytes()
    for end in (2, 9, 30, 40, 60, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(ValueError, match="is damaged or not supported: "):
            read_model_file(path)
    with pytest.raises(ValueError, match="is damaged or not supported: it has no 'c'"):
        read_model_file(write(path, {"a": draw(2, 3)}, aliases=[("b", "c")]))


def test_scales_and_aliases_do_not_multiply_the_memory(path):
    row = np.zeros((1, 1000), "int8")
    write(path, {"a/weight": row, "a/weight_scale": np.ones(1000, "float32")})
    with pytest.raises(ValueError, match="model.bin .*: a/weight_scale must have 1 or 1 values"):
        read_model_file(path)
    aliases = [(f"alias {i}", "a") for i in range(1000)]
    file = read_model_file(write(path, {"a": np.zeros(1000, "float16")}, aliases=aliases))
    assert len(file.arrays) == 1001
    assert all(array is file.arrays["a"] for array in file.arrays.values())
