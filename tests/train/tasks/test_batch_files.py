import gzip
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tfx_transformer.train.cli import main
from tfx_transformer.train.tasks.batch_files import FileOptions, LineWork, answer_files, hash_model


class Upper:
    """Answers in capitals; records the number of lines that it gets at a time."""

    def __init__(self):
        self.sizes = []

    def results(self, lines, batch_size):
        self.sizes.append(len(lines))
        return [SimpleNamespace(text=x.upper(), truncated=len(x) > 9) for x in lines]


def show(result, line):
    return result.text


@pytest.fixture
def pipeline(monkeypatch):
    pipeline = Upper()
    monkeypatch.setattr("tfx_transformer.train.run_folder.load_pipeline", lambda *_, **__: pipeline)
    return pipeline


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_text("1 2 3")
    return str(tmp_path / "model")


@pytest.fixture
def sources(tmp_path):
    """Three files, one of them compressed and one of them empty."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\n\ntwo and \xe2\x80\xa8 a half\nthree")
    (folder / "b.txt").write_bytes(b"")
    with gzip.open(folder / "c.txt.gz", "wb") as file:
        file.write("".join(f"line {i}\n" for i in range(50)).encode())
    return folder


@pytest.fixture
def answer(model, sources, tmp_path, pipeline):
    def run(*inputs, output="out", batch_size=2, **options):
        paths = tuple(str(sources / name) for name in inputs or ("*.txt*",))
        work = LineWork(model, "translation", options, show, batch_size)
        return answer_files(FileOptions(paths, str(tmp_path / output)), work)

    return run


def test_each_file_has_an_output_of_the_same_name_with_a_line_for_each(answer, tmp_path, pipeline):
    assert answer() == 1  # the line of more than 9 characters
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [".batch", "a.txt", "b.txt", "c.txt.gz"]
    assert (out / "a.txt").read_text() == "ONE\n\nTWO AND \u2028 A HALF\nTHREE\n"
    assert (out / "b.txt").read_bytes() == b""
    lines = gzip.decompress((out / "c.txt.gz").read_bytes()).decode().splitlines()
    assert lines == [f"LINE {i}" for i in range(50)]
    assert max(pipeline.sizes) == 32  # 16 batches: memory does not depend on the file


def test_the_same_lines_are_the_same_bytes(answer, tmp_path, monkeypatch):
    answer(output="one")
    monkeypatch.setattr(time, "time", lambda: 5e8)  # gzip stores the time by default
    answer(output="two")
    for name in ("a.txt", "b.txt", "c.txt.gz"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_complete_files_are_skipped(answer, tmp_path, pipeline, capsys):
    answer("a.txt")
    pipeline.sizes.clear()
    answer("a.txt", "b.txt")
    assert pipeline.sizes == [] and "1 of 2 files are complete" in capsys.readouterr().err
    (tmp_path / "out/a.txt").unlink()
    answer()
    assert sum(pipeline.sizes) == 4 + 50


def test_an_interrupted_file_is_not_there_and_written_by_the_next_call(
    answer, tmp_path, pipeline, monkeypatch
):
    complete = pipeline.results

    def stop(lines, batch_size):
        if "line 40" in lines:
            os.kill(os.getpid(), signal.SIGINT)
        return complete(lines, batch_size)

    monkeypatch.setattr(pipeline, "results", stop)
    with pytest.raises(KeyboardInterrupt, match="stopped; the same command continues"):
        answer()
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [".batch", "a.txt", "b.txt"]  # also no temporary file
    monkeypatch.setattr(pipeline, "results", complete)
    answer()
    assert gzip.decompress((tmp_path / "out/c.txt.gz").read_bytes()).count(b"\n") == 50


def test_files_of_another_model_or_of_other_options_are_not_mixed(answer, tmp_path, model):
    answer("a.txt", n_best=2)
    with pytest.raises(ValueError, match="of another model or other options: n_best was 2, is 3"):
        answer(n_best=3)
    with pytest.raises(ValueError, match="n_best was 2, is None; choose another folder"):
        answer()
    (tmp_path / "model/weights").write_text("1 2 4")
    with pytest.raises(ValueError, match=r"model was \w{64}, is \w{64}"):
        answer(n_best=2)
    (tmp_path / "out/a.txt").unlink()  # nothing is left that could be mixed
    answer(n_best=3)


def test_an_input_that_has_changed_is_named(answer, sources, tmp_path):
    answer()
    with gzip.open(sources / "c.txt.gz", "rb") as file:
        content = file.read()
    with gzip.open(sources / "c.txt.gz", "wb", compresslevel=1) as file:
        file.write(content)
    answer()  # other bytes, but the same lines
    (sources / "a.txt").write_text("four\n")
    message = "out/a.txt was made from older lines of .*corpus/a.txt; remove it to replace it"
    with pytest.raises(ValueError, match=message):
        answer()
    (tmp_path / "out/a.txt").unlink()
    answer()
    assert (tmp_path / "out/a.txt").read_text() == "FOUR\n"


def test_a_file_of_another_origin_is_kept(answer, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/b.txt").write_text("mine")
    with pytest.raises(ValueError, match="out/b.txt was made from something else than"):
        answer()
    assert (tmp_path / "out/b.txt").read_text() == "mine"


def test_a_file_that_changes_while_it_is_read_spoils_no_other(answer, sources, pipeline, tmp_path):
    complete = pipeline.results

    def grow(lines, batch_size):
        (sources / "c.txt").write_text("line\n" * 500)
        return complete(lines, batch_size)

    (sources / "c.txt").write_text("line\n" * 50)
    (sources / "d.txt").write_text("other\n")
    pipeline.results = grow
    with pytest.raises(ValueError, match="c.txt changed while it was read"):
        answer("c.txt.gz", "c.txt", "d.txt")
    assert not (tmp_path / "out/c.txt").exists() and not (tmp_path / "out/d.txt").exists()


def test_bad_inputs_are_errors_of_one_line_before_anything_is_written(answer, sources, tmp_path):
    (sources / "other").mkdir()
    (sources / "other/a.txt").write_text("a")
    (sources / "latin.txt").write_bytes(b"one\ncaf\xe9\n")
    (sources / "bad.gz").write_bytes(b"no gzip")
    errors = {
        ("none*",): "input must name files; there is no file .*none",
        ("other",): "there is no file .*other",
        ("a.txt", "other/a.txt"): "files of different names; got .*a.txt, .*other/a.txt",
        ("a.txt", "latin.txt"): "latin.txt, line 2: is not UTF-8",
        ("bad.gz",): "bad.gz is not a valid gzip file",
    }
    for inputs, message in errors.items():
        with pytest.raises((ValueError, OSError), match=message):
            answer(*inputs)
    with pytest.raises(ValueError, match="output must not be a folder of the input"):
        answer(output="corpus")
    assert not (tmp_path / "out/a.txt").exists()


def test_a_name_may_look_like_a_pattern_and_be_given_twice(answer, sources, tmp_path):
    (sources / "a[1].txt").write_text("x")
    answer("a[1].txt", "a*.txt")
    assert (tmp_path / "out/a[1].txt").read_text() == "X\n"


def test_files_exclude_other_inputs(model):
    for arguments, message in {
        ("--input", "x"): "--output must name a folder for the results",
        ("--engine", "ray"): "--output, --engine and --workers need files",
        ("--input", "x", "--output", "y.txt"): "--output must be a folder, not a file; got --outp",
        ("red cat", "--input", "x", "--output", "y"): "text must not be given with input",
        ("--input", "x", "--output", "y", "--alignment"): "alignment must not be given with input",
    }.items():
        with pytest.raises(SystemExit, match=message):
            main(["translate", model, *arguments])


def test_a_missing_ray_is_named_in_one_line(model, sources, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    files = ["--input", str(sources / "a.txt"), "--output", str(sources / "out")]
    with pytest.raises(SystemExit, match="engine=ray needs the package ray: pip install ray"):
        main(["translate", model, *files, "--engine", "ray"])


def test_a_log_says_lines_and_time_left_and_standard_output_the_files(answer, tmp_path, capsys):
    answer()
    out, err = capsys.readouterr()
    assert out.splitlines() == [str(tmp_path / "out" / x) for x in ("a.txt", "b.txt", "c.txt.gz")]
    assert re.search(r"^line 54/54, [\d,]+ lines/s, 00:00 left$", err, flags=re.M)


def test_a_second_command_in_the_same_folder_is_refused(answer, pipeline):
    pipeline.results = lambda *_: answer()
    with pytest.raises(ValueError, match="in use by another process"):
        answer()


def test_other_files_of_a_run_do_not_change_its_hash(run, tmp_path):
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(run[0], folder)
    (folder / "pictures").mkdir()
    (folder / "pictures/plot.png").write_bytes(b"1")
    assert hash_model(str(folder)) == hash_model(str(run[0]))
    (folder / "model.keras").write_bytes(b"1")
    assert hash_model(str(folder)) != hash_model(str(run[0]))


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def test_a_killed_command_continues_to_the_same_files(run, tmp_path):
    (tmp_path / "a.txt").write_text("red cat\n" * 20)
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(b"big old dog\nred\n" * 100)
    command = ["translate", str(run[0]), "--input", str(tmp_path / "*.txt*"), "--batch-size", "2"]
    main([*command, "--output", str(tmp_path / "whole")])
    out = tmp_path / "out"
    start = [sys.executable, "-m", "tfx_transformer.train.cli", *command, "--output", str(out)]
    for number in (signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen(start, stderr=subprocess.PIPE, text=True) as process:
            wait_for(lambda: list(out.glob(".b.*")), process)  # the temporary file of the second
            process.send_signal(number)
            errors = process.communicate(timeout=60)[1]
        if number == signal.SIGINT:
            assert process.returncode == 130
            assert errors.endswith("tfx-transformer: stopped; the same command continues\n")
        assert {path.name for path in out.glob("*.*")} - {".b.txt.tmp.gz"} == {".batch", "a.txt"}
    main([*command, "--output", str(out)])
    assert {path.name for path in out.iterdir()} == {".batch", "a.txt", "b.txt.gz"}
    for name in ("a.txt", "b.txt.gz"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert (out / "a.txt").read_text() == "rot Katze\n" * 20
