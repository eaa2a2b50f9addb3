import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tfx_transformer.train.cli import main

FIXTURES = Path(__file__).parents[3] / "fixtures"
MARIAN = str(FIXTURES / "marian")
TEXTS = ["the red cat", "a big old dog sees the blue sea and the cat"]
installed = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="ctranslate2 is not installed"
)


def test_sentences_are_translated_with_scores_and_alignment(run, capsys):
    main(["translate", str(run[0]), "red cat", "big dog"])
    assert capsys.readouterr().out.splitlines() == ["rot Katze", "groß Hund"]
    main(["translate", str(run[0]), "red cat", "--n-best", "2", "--alignment"])
    lines = capsys.readouterr().out.splitlines()
    scores, texts = zip(*(line.split("\t") for line in lines[:2]), strict=True)
    assert float(scores[0]) > float(scores[1]) and texts[0] == "rot Katze"
    assert "(end)" in lines[2]  # the source, above the alignment


def test_lines_of_standard_input_are_translated_in_order(run, standard_input, capsys):
    standard_input(b"red cat\r\n\nbig old dog\n")
    main(["translate", str(run[0])])
    assert capsys.readouterr().out.splitlines() == ["rot Katze", "", "groß alt Hund"]


def test_a_line_is_answered_before_the_next_is_written(run):
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "translate", str(run[0])]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        for source, target in (("red cat", "rot Katze"), ("blue dog", "blau Hund")):
            process.stdin.write(f"{source}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{target}\n"
        process.stdin.close()
        assert process.wait(timeout=60) == 0


def test_truncated_sentences_are_counted_once(run, capsys):
    main(["translate", str(run[0]), "red cat", "red cat " * 90, "big dog " * 90])
    out, err = capsys.readouterr()
    line = "2 texts were too long and truncated: --max-length sets the length in tokens"
    assert len(out.splitlines()) == 3 and err.splitlines().count(line) == 1
    main(["translate", str(run[0]), "red cat"])
    assert "truncated" not in capsys.readouterr().err


def test_a_line_that_is_not_utf_8_is_reported_in_one_line(run, standard_input):
    standard_input(b"red cat\n\xff\xfe\n")
    with pytest.raises(SystemExit, match="line 2 of standard input is not UTF-8"):
        main(["translate", str(run[0])])


def test_decoding_options_are_options_of_the_command(run, capsys):
    options = ["--kind", "beam", "--width", "2", "--length-penalty", "0", "--min-length", "9"]
    main(["translate", str(run[0]), "red cat", *options, "--no-repeat-ngram", "4"])
    assert len(capsys.readouterr().out.split()) > 2
    with pytest.raises(SystemExit, match="the decoder greedy has no option width; got width=2"):
        main(["translate", str(run[0]), "red cat", "--kind", "greedy", "--width", "2"])


@pytest.fixture(scope="module")
def expected():
    return json.loads((FIXTURES / "marian.json").read_text())


def test_a_marian_folder_translates(expected, capsys):
    main(["translate", MARIAN, *TEXTS])
    texts = [best["texts"][0] for best in expected["beam"][:2]]
    assert capsys.readouterr().out.splitlines() == texts


def test_a_marian_folder_is_exported_and_used(expected, tmp_path, capsys):
    folder = str(tmp_path / "served")
    main(["export", MARIAN, "--to", folder, "--kind", "greedy", "--max-length", "20"])
    assert "needs tensorflow-text: no" in capsys.readouterr().out
    main(["translate", folder, *TEXTS])
    texts = [best["texts"][0] for best in expected["greedy"][:2]]
    assert capsys.readouterr().out.splitlines() == texts


@installed
def test_a_run_is_exported_to_ctranslate2(run, tmp_path, capsys):
    import ctranslate2
    import sentencepiece

    folder = str(tmp_path / "out")
    main(["export", str(run[0]), "--to", folder, "--format", "ctranslate2"])
    assert capsys.readouterr().out == f"{folder}\nnext: tfx-transformer serve {folder}\n"
    source, target = (
        sentencepiece.SentencePieceProcessor(f"{folder}/{side}.spm")
        for side in ("source", "target")
    )
    tokens = source.encode(["red cat", "big old dog"], out_type=str)
    found = ctranslate2.Translator(folder).translate_batch(tokens)
    texts = [target.decode(result.hypotheses[0]) for result in found]
    assert texts == ["rot Katze", "groß alt Hund"]
    assert "Recipe:" in Path(folder, "README.md").read_text()


@installed
def test_a_marian_folder_is_exported_to_ctranslate2(tmp_path):
    folder = tmp_path / "out"
    main(["export", MARIAN, "--to", str(folder), "--format", "ctranslate2"])
    assert (folder / "model.bin").exists()
    assert (folder / "README.md").read_text().startswith("From marian.\n")


def test_a_missing_library_is_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(SystemExit, match="needs the package ctranslate2: pip install ctranslate2"):
        main(["export", MARIAN, "--to", str(tmp_path / "out"), "--format", "ctranslate2"])
    assert not (tmp_path / "out").exists()


def test_a_format_for_images_is_refused(run, tmp_path):
    message = "the format of a translator must be ctranslate2 or saved_model; got onnx"
    for folder in (MARIAN, str(run[0])):
        with pytest.raises(SystemExit, match=message):
            main(["export", folder, "--to", str(tmp_path / "out"), "--format", "onnx"])
    assert not (tmp_path / "out").exists()
