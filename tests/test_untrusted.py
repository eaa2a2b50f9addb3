"""Every defect of a file from others is one ValueError of one line, and takes little memory."""

import io
import zipfile

import numpy as np
import pytest

from tfx_transformer.untrusted import MAX_JSON_BYTES, check_size, read_json, read_npz, reading


@pytest.mark.parametrize("error", [TypeError, KeyError, IndexError, OverflowError, MemoryError])
def test_any_error_becomes_a_value_error_of_one_line_that_names_the_file(error):
    message = r"^x.bin is damaged or not supported: [^\n]*$"
    with pytest.raises(ValueError, match=message), reading("x.bin"):
        raise error("first line\nsecond line")


def test_errors_of_the_file_system_and_errors_that_name_the_file_stay(tmp_path):
    with pytest.raises(FileNotFoundError), reading(tmp_path / "none"):
        (tmp_path / "none").read_bytes()
    with pytest.raises(ValueError, match="^x.bin must be small$"), reading("x.bin"):
        raise ValueError("x.bin must be small")
    with pytest.raises(ValueError, match="^x.bin is damaged"), reading("x.bin"):
        raise OSError("of a decoder, without a file name")


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b'{"x": Infinity}', b"\xff", b"[" * 10**6])
def test_json_must_be_an_object(content, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"config.json is damaged or not supported: [^\n]*$"):
        read_json(path)
    path.write_bytes(b" " * MAX_JSON_BYTES + b"{}")
    with pytest.raises(ValueError, match="must not exceed 16,777,216 bytes"):
        read_json(path)
    path.write_text('{"ä": [1.5, null]}', "utf-8")
    assert read_json(path) == {"ä": [1.5, None]}


def test_content_may_be_a_small_multiple_of_its_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(bytes(2**19))
    check_size(path, 8 * 2**19)
    with pytest.raises(ValueError, match="a of 524,288 bytes must not expand to 4,194,305 bytes"):
        check_size(path, 8 * 2**19 + 1)


def npy(shape, dtype="<f4", data=b""):
    """An .npy file that claims a shape."""
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + data


NPZ = {  # the content of an entry
    "claimed size": npy((10**13,)),
    "negative": npy((-1,), data=bytes(8)),
    "objects": npy((1,), "|O", b"\x80\x02K\x01."),
    "void": npy((1,), "|V8", bytes(8)),
    "no array": b"text",
    "bomb": bytes(2**24),
}


@pytest.mark.parametrize("content", NPZ.values(), ids=NPZ)
def test_a_hostile_npz_file_is_refused(content, tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(ValueError, match=r"^[^\n]*a.npz[^\n]*$"):
        read_npz(path)


def test_arrays_of_numbers_and_strings_are_read(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "names": np.array(["a", "b"])}
    np.savez_compressed(tmp_path / "a.npz", **arrays)
    read = read_npz(tmp_path / "a.npz")
    assert list(read) == ["x", "names"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
