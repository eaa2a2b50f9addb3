from tfx_transformer.train.cli import main


def test_texts_are_classified_by_a_run_and_by_its_export(
    classify_text_run, standard_input, tmp_path, capsys
):
    texts = ["old red Hund", "", "big Katze"]
    main(["classify-text", str(classify_text_run[0]), *texts, "--top-k", "2", "--batch-size", "2"])
    by_run = capsys.readouterr().out
    rows = [line.split("\t") for line in by_run.split("\n")[:-1]]
    assert [row[-1] for row in rows] == texts and {len(row) for row in rows} == {3}
    assert rows[0][0].startswith("dog 0.") and rows[2][0].startswith("cat 0.")
    main(["classify-text", str(classify_text_run[0]), "big " * 200])
    line = "1 text was too long and truncated: the model is trained for texts of --data.max-length"
    assert line in capsys.readouterr().err
    served = str(tmp_path / "served")
    main(
        ["export", str(classify_text_run[0]), "--to", served, "--top-k", "2", "--tokenizer", "text"]
    )
    assert "needs tensorflow-text: Sentencepiece" in capsys.readouterr().out
    main(["classify-text", served, *texts, "--top-k", "2"])
    assert capsys.readouterr().out == by_run
    standard_input("\n".join(texts).encode())
    main(["classify-text", served])
    assert capsys.readouterr().out.splitlines()[0] == f"{rows[0][0]}\t{texts[0]}"


def test_the_lines_of_files_are_classified(classify_text_run, tmp_path):
    (tmp_path / "texts.txt").write_text("old red Hund\n\nbig Katze\n")
    files = ["--input", str(tmp_path / "*.txt"), "--output", str(tmp_path / "out")]
    main(["classify-text", str(classify_text_run[0]), *files, "--top-k", "2"])
    rows = [line.split("\t") for line in (tmp_path / "out/texts.txt").read_text().splitlines()]
    assert [row[2] for row in rows] == ["old red Hund", "", "big Katze"]
    assert rows[0][0].startswith("dog 0.") and rows[2][0].startswith("cat 0.")
