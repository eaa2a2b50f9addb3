import pytest

from tfx_transformer.train.cli import main


def test_a_text_is_continued_token_by_token(language_run, capsys):
    folder = str(language_run[0])
    main(["generate", folder, "red rot cat ", "--temperature", "0", "--max-length", "6"])
    greedy = capsys.readouterr().out
    assert greedy.startswith("red rot cat Katze") and greedy.endswith("\n")
    options = ["--top-k", "5", "--top-p", "0.9", "--temperature", "2", "--max-length", "90"]
    texts = []
    for seed in ("1", "1", "2"):
        main(["generate", folder, "big ", *options, "--seed", seed])
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2] and len(texts[0]) > 60  # more than the 32 positions
    main(["generate", folder, "red rot cat " * 9, "--max-length", "3"])
    assert "1 text was too long and truncated" in capsys.readouterr().err
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
    main(["generate", served, "cat " * 20, "--max-length", "6"])
    assert "1 text was too long and truncated" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="top_k of .*served must be as exported"):
        main(["generate", served, "cat", "--top-k", "3"])


def test_sampling_options_are_exported(language_run, tmp_path):
    options = ["--temperature", "0.5", "--top-k", "7", "--max-length", "9"]
    main(["export", str(language_run[0]), "--to", str(tmp_path / "served"), *options])
    stored = (tmp_path / "served/export.json").read_text()
    for line in ('"temperature": 0.5', '"top_k": 7', '"max_length": 9', '"kind": "sample"'):
        assert line in stored


def test_a_masked_language_model_is_not_exported(mask_run, tmp_path):
    with pytest.raises(SystemExit, match="train classify_text --weights"):
        main(["export", str(mask_run[0]), "--to", str(tmp_path / "to")])
    assert not (tmp_path / "to").exists()
