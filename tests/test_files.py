import io
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from tfx_transformer.files import (
    MAX_JSON_BYTES,
    check_exists,
    check_size,
    check_unlocked,
    has_scheme,
    lock_folder,
    package_file,
    read_json,
    read_npz,
    reading,
    whole_file,
    whole_folder,
    write_file,
)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new/x.txt"
    write_file(path, "old")
    with pytest.raises(OSError, match="disk full"), whole_file(path) as temporary:
        temporary.write_text("ne")
        raise OSError("disk full")
    assert path.read_text() == "old" and os.listdir(path.parent) == ["x.txt"]
    with whole_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old" and temporary.suffix == ".txt"
    assert path.read_text() == "new" and os.listdir(path.parent) == ["x.txt"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    folder = tmp_path / "new/x"
    with pytest.raises(OSError, match="disk full"), whole_folder(folder) as temporary:
        (temporary / "part").write_text("x")
        raise OSError("disk full")
    assert os.listdir(folder.parent) == []
    with whole_folder(folder) as temporary:
        (temporary / "part").write_text("x")
    assert (folder / "part").read_text() == "x" and os.listdir(folder.parent) == ["x"]
    with pytest.raises(ValueError, match="folder must be new; .*x already exists"):
        whole_folder(folder).__enter__()


def test_a_path_must_exist_unless_it_has_a_scheme(tmp_path):
    check_exists(run=str(tmp_path), weights="hf:google/vit")
    with pytest.raises(FileNotFoundError, match="run must name a file or folder; there is no .*x"):
        check_exists(run=str(tmp_path / "x"))
    assert has_scheme("tfds:x") and not has_scheme("C:/x") and not has_scheme("runs/x:y")


def test_bytes_and_names_that_are_not_utf8_are_written(tmp_path):
    write_file(tmp_path / "a", b"\xff")
    write_file(tmp_path / "b", "\udcff")
    assert (tmp_path / "a").read_bytes() == b"\xff"
    assert (tmp_path / "b").read_text() == r"\udcff"


HOLD = """
import sys, time
from tfx_transformer.files import lock_folder
with lock_folder(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(100)
"""


def test_a_second_process_is_refused_until_the_first_is_dead(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"
        for enter in (check_unlocked, lambda folder: lock_folder(folder).__enter__()):
            with pytest.raises(
                ValueError, match=f'in use by another process: {{"pid": {other.pid}'
            ):
                enter(tmp_path)
        other.kill()
    assert (tmp_path / "lock").exists()  # left by the dead process
    check_unlocked(tmp_path)
    with lock_folder(tmp_path):
        assert json.loads((tmp_path / "lock").read_text())["pid"] == os.getpid()
    assert not (tmp_path / "lock").exists()


def test_a_file_of_a_package_is_found_without_an_import(monkeypatch, tmp_path):
    (tmp_path / "unimported/data").mkdir(parents=True)
    (tmp_path / "unimported/__init__.py").write_text("raise RuntimeError")
    (tmp_path / "unimported/data/7.txt").write_text("seven")
    monkeypatch.syspath_prepend(tmp_path)
    assert package_file("unimported", "data/*.txt").read_text() == "seven"
    for package, pattern in (("unimported", "data/8.txt"), ("no_such", "x")):
        with pytest.raises(ModuleNotFoundError, match=f"{pattern} needs the package {package}"):
            package_file(package, pattern)


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
