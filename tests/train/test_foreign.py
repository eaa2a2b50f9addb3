"""The commands on translators of others: `fixtures/marian`, and out to CTranslate2."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from tfx_transformer.train.cli import main
from tfx_transformer.train.foreign import change_decoder, load_foreign
from tfx_transformer.train.searching import Search
from tfx_transformer.train.serving import load_translate

FIXTURES = Path(__file__).parents[1] / "fixtures"
MARIAN = str(FIXTURES / "marian")
TEXTS = ["the red cat", "a big old dog sees the blue sea and the cat"]
installed = pytest.mark.skipif(
    importlib.util.find_spec("ctranslate2") is None, reason="ctranslate2 is not installed"
)


@pytest.fixture(scope="module")
def told():
    return json.loads((FIXTURES / "marian.json").read_text())


def test_a_folder_of_hugging_face_translates(told, capsys):
    main(["translate", MARIAN, *TEXTS])
    expected = [best["texts"][0] for best in told["beam"][:2]]
    assert capsys.readouterr().out.splitlines() == expected


def test_it_gives_as_many_translations_as_are_asked_for(told):
    found = load_translate(MARIAN, n_best=4)(TEXTS)["n_best"].numpy().tolist()
    expected = [best["texts"] for best in told["beam"][:2]]
    assert [[text.decode() for text in texts] for texts in found] == expected


def test_it_is_exported_and_used(told, tmp_path, capsys):
    folder = str(tmp_path / "served")
    main(["export", MARIAN, "--to", folder, "--kind", "greedy", "--max-length", "20"])
    assert "needs tensorflow-text: Sentencepiece" in capsys.readouterr().out
    main(["translate", folder, *TEXTS])
    expected = [best["texts"][0] for best in told["greedy"][:2]]
    assert capsys.readouterr().out.splitlines() == expected


def test_another_search_is_what_is_said_and_else_the_folder_s():
    beam = {"kind": "beam", "width": 4, "length_penalty": 1.0, "length_rule": "power"}
    assert change_decoder(beam, {}) == beam
    assert change_decoder(beam, {"width": 7}) == beam | {"width": 7}
    assert change_decoder(beam, {"n_best": 6}) == beam | {"n_best": 6, "width": 6}
    assert change_decoder(beam, {"kind": "greedy"}) == {"kind": "greedy"}
    several = change_decoder({"kind": "greedy"}, {"n_best": 2})
    assert several == {"kind": "beam", "width": 4, "n_best": 2}
    translator = load_foreign(MARIAN, Search(length_penalty=0.0, max_length=9))
    assert translator.max_length == 9 and translator.decoder.length_penalty == 0
    assert translator.decoder.length_rule == "power"


@installed
def test_a_run_goes_out_to_the_library(run, tmp_path, capsys):
    import ctranslate2
    import sentencepiece

    folder = str(tmp_path / "out")
    main(["export", str(run[0]), "--to", folder, "--format", "ctranslate2"])
    assert capsys.readouterr().out == f"{folder}\n"
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
def test_so_does_a_folder_of_hugging_face(tmp_path, capsys):
    folder = tmp_path / "out"
    main(["export", MARIAN, "--to", str(folder), "--format", "ctranslate2"])
    assert (folder / "model.bin").exists() and (
        folder / "README.md"
    ).read_text() == "From marian.\n"


def test_what_does_not_translate_stays(classify_run, tmp_path):
    command = ["export", str(classify_run[0]), "--to", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="holds a classifier"):
        main([*command, "--format", "ctranslate2"])


def test_a_missing_library_is_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(SystemExit, match=r"no package ctranslate2.*tfx-transformer\[convert\]"):
        main(["export", MARIAN, "--to", str(tmp_path / "out"), "--format", "ctranslate2"])


def test_a_translator_has_no_place_in_a_file_without_words(run, tmp_path):
    for folder, message in (
        (MARIAN, "a translator's format must be saved_model or ctranslate2; got onnx"),
        (str(run[0]), "whose format must be saved_model or ctranslate2; onnx has no ops for"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(["export", folder, "--to", str(tmp_path / "out"), "--format", "onnx"])
    assert not (tmp_path / "out").exists()
