import io

import pytest

from tfx_transformer.train.cli import main
from tfx_transformer.train.commands_text import batched


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


def test_lines_of_standard_input_are_translated_in_order(run, standard_input, capsys):
    standard_input(b"red cat\r\n\nbig old dog\n")
    main(["translate", str(run[0])])
    assert capsys.readouterr().out.splitlines() == ["rot Katze", "", "groß alt Hund"]


def test_what_is_not_utf_8_is_named_by_its_line(run, standard_input):
    standard_input(b"red cat\n\xff\xfe\n")
    with pytest.raises(SystemExit, match="line 2 of standard input is not UTF-8"):
        main(["translate", str(run[0])])


def test_a_text_goes_on_as_it_is_drawn(language_run, capsys):
    folder = str(language_run[0])
    main(["generate", folder, "red rot cat ", "--temperature", "0", "--max-length", "6"])
    greedy = capsys.readouterr().out
    assert greedy.startswith("red rot cat Katze") and greedy.endswith("\n")
    options = ["--top-k", "5", "--top-p", "0.9", "--temperature", "2", "--max-length", "90"]
    said = []
    for seed in ("1", "1", "2"):
        main(["generate", folder, "big ", *options, "--seed", seed])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2] and len(said[0]) > 60  # more than the 32 positions
    main(["generate", folder, "--max-length", "3"])
    assert len(capsys.readouterr().out) == 4  # without a prompt, three letters


def test_the_export_of_a_language_model_is_used(language_run, tmp_path, capsys):
    served = str(tmp_path / "served")
    main(["export", str(language_run[0]), "--to", served, "--kind", "greedy"])
    assert "limited\n" in capsys.readouterr().out
    for folder, options in ((served, []), (str(language_run[0]), ["--temperature", "0"])):
        main(["generate", folder, "cat ", "--max-length", "6", *options])
    one, two = capsys.readouterr().out.splitlines()[:2]
    assert one == two and one.startswith("cat Katze")
    with pytest.raises(SystemExit, match="is an export, whose way to draw is fixed; got"):
        main(["generate", served, "cat", "--top-k", "3"])


def test_texts_are_classified_by_a_run_and_by_its_export(
    classify_text_run, standard_input, tmp_path, capsys
):
    texts = ["old red Hund", "", "big Katze"]
    main(["classify-text", str(classify_text_run[0]), *texts, "--top-k", "2", "--batch-size", "2"])
    said = capsys.readouterr().out
    rows = [line.split("\t") for line in said.split("\n")[:-1]]
    assert [row[-1] for row in rows] == texts and {len(row) for row in rows} == {3}
    assert rows[0][0].startswith("dog 0.") and rows[2][0].startswith("cat 0.")
    served = str(tmp_path / "served")
    main(["export", str(classify_text_run[0]), "--to", served, "--top-k", "2"])
    assert "needs tensorflow-text: Sentencepiece" in capsys.readouterr().out
    main(["classify-text", served, *texts, "--top-k", "2"])
    assert capsys.readouterr().out == said
    standard_input("\n".join(texts).encode())
    main(["classify-text", served])
    assert capsys.readouterr().out.splitlines()[0] == f"{rows[0][0]}\t{texts[0]}"


def test_lines_come_in_batches():
    assert list(batched(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(batched(iter(""), 2)) == []
