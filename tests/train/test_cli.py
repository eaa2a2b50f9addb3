import io
import json
import subprocess
import sys

import pytest

from tfx_transformer import __version__
from tfx_transformer.layers import ATTENTION, POSITION
from tfx_transformer.train.cli import main


def test_layers_lists_all_names(capsys):
    main(["layers"])
    out = capsys.readouterr().out
    for name in (*ATTENTION, *POSITION):
        assert name in out


def test_the_version_is_the_package_s(capsys):
    main(["--version"])
    assert capsys.readouterr().out == f"tfx-transformer {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["fly"]])
def test_a_wrong_command_fails_and_names_the_right_ones(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    captured = capsys.readouterr()
    assert exit.value.code == 2 and "demo" in captured.err + captured.out


@pytest.fixture
def standard_input(monkeypatch):
    """Puts bytes where standard input is."""

    def put(content):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


def test_sentences_are_translated_with_scores_and_alignment(run, capsys):
    main(["translate", str(run[0]), "red cat", "big dog"])
    assert capsys.readouterr().out.splitlines() == ["rot Katze", "groß Hund"]
    main(["translate", str(run[0]), "red cat", "--n-best", "2", "--alignment"])
    lines = capsys.readouterr().out.splitlines()
    scores, texts = zip(*(line.split("\t") for line in lines[:2]), strict=True)
    assert float(scores[0]) > float(scores[1]) and texts[0] == "rot Katze"
    assert "</s>" in lines[2]  # the source, above the shades


def test_a_run_is_used_in_a_process_of_its_own(run):
    command = [
        sys.executable,
        "-m",
        "tfx_transformer.train.cli",
        "translate",
        str(run[0]),
        "red cat",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert (result.stdout, result.stderr) == ("rot Katze\n", "")


def test_lines_of_standard_input_are_translated_in_order(run, standard_input, capsys):
    standard_input(b"red cat\r\n\nbig old dog\n")
    main(["translate", str(run[0])])
    assert capsys.readouterr().out.splitlines() == ["rot Katze", "", "groß alt Hund"]


def test_what_is_not_utf_8_is_named_by_its_line(run, standard_input):
    standard_input(b"red cat\n\xff\xfe\n")
    with pytest.raises(SystemExit, match="line 2 of standard input is not UTF-8"):
        main(["translate", str(run[0])])


def test_an_export_is_made_inspected_and_used(run, tmp_path, capsys):
    folder = str(tmp_path / "served")
    main(["export", str(run[0]), "--to", folder, "--kind", "greedy"])
    assert "serving_default" in capsys.readouterr().out
    main(["inspect", folder])
    assert "Sentencepiece" in capsys.readouterr().out
    main(["translate", folder, "blue cat"])
    assert capsys.readouterr().out == "blau Katze\n"


def test_a_run_is_scored_and_drawn(run, tmp_path, capsys):
    main(["evaluate", str(run[0]), "--width", "1", "--n-best", "1"])
    assert json.loads(capsys.readouterr().out)["bleu"] > 60
    main(["plot", str(run[0]), "red cat", "--to", str(tmp_path), "--word", "cat"])
    assert str(tmp_path / "word.png") in capsys.readouterr().out.splitlines()


def test_a_recipe_is_trained_with_options(corpus, tmp_path, capsys):
    data = [
        part
        for split, name in (("train", "train"), ("validation", "val"), ("test", "test"))
        for part in (f"--data.{split}", str(corpus / f"{name}.en"), str(corpus / f"{name}.de"))
    ]
    options = ["--steps", "2", "--eval-steps", "2", "--data.vocab-size", "300", "--average", "1"]
    options += ["--optimizer.schedule", "inverse_sqrt", "--optimizer.warmup-steps", "1"]
    folder = str(tmp_path / "run")
    options += ["--folder", folder, "--model.dim", "8", "--model.depth", "1"]
    main(["train", "translate_multi30k", *data, *options])
    assert f"next: tfx-transformer export {folder}" in capsys.readouterr().out


def test_pictures_are_named_by_a_run_and_by_its_export(classify_run, pictures, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    files = [str(pictures / "red/1.jpg"), str(tmp_path / "bad.jpg"), str(pictures / "blue/2.png")]
    main(["classify", str(classify_run[0]), *files, "--top-k", "2", "--batch-size", "2"])
    said = capsys.readouterr().out
    rows = [line.split("\t") for line in said.splitlines()]
    assert [row[0] for row in rows] == files and [len(row) for row in rows] == [3, 2, 3]
    assert rows[0][1].startswith("red 0.") and rows[1][1] == "unreadable"
    served = str(tmp_path / "served")
    main(["export", str(classify_run[0]), "--to", served, "--top-k", "2"])
    told = capsys.readouterr().out
    assert "needs tensorflow-text: no" in told and "images\n  in  image: float32" in told
    main(["classify", served, *files, "--top-k", "2"])
    assert capsys.readouterr().out == said


def test_a_picture_is_drawn(classify_run, pictures, tmp_path, capsys):
    main(["plot", str(classify_run[0]), str(pictures / "red/1.jpg"), "--to", str(tmp_path)])
    assert str(tmp_path / "rollout.png") in capsys.readouterr().out.splitlines()


def test_a_missing_picture_is_told_before_any_answer(tmp_path):
    with pytest.raises(SystemExit, match="^tfx-transformer: no such file: .*none.jpg"):
        main(["classify", str(tmp_path), str(tmp_path / "none.jpg")])
    with pytest.raises(SystemExit, match="files must name at least one picture"):
        main(["classify", str(tmp_path)])


def test_a_wrong_value_is_told_in_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"^tfx-transformer: .* holds no finished run"):
        main(["translate", str(tmp_path), "red cat"])
    with pytest.raises(SystemExit, match=r"^tfx-transformer train: data.train must name a source"):
        main(["train", "translate_multi30k", "--folder", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()
