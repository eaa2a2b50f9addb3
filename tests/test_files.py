import json
import os
import subprocess
import sys

import pytest

from tfx_transformer.files import (
    check_exists,
    check_unlocked,
    has_scheme,
    lock_folder,
    package_file,
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
