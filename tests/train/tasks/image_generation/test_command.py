import pytest

from tfx_transformer.train.cli import main


def test_a_sheet_is_drawn_and_log_probabilities_are_printed(draw_run, tmp_path, capsys):
    sheet = tmp_path / "sheets/drawn.png"
    options = ["--count", "3", "--seed", "5", "--temperature", "1.5", "--output", str(sheet)]
    main(["draw", str(draw_run[0]), "a red circle", *options])
    first = capsys.readouterr().out.splitlines()
    scores = [float(line.split("\t")[1]) for line in first[:3]]
    assert scores == sorted(scores, reverse=True) and max(scores) < 0
    assert first[3] == f"sheet: {sheet}" and sheet.read_bytes().startswith(b"\x89PNG")
    main(["draw", str(draw_run[0]), "a red circle", *options])
    assert capsys.readouterr().out.splitlines() == first


def test_wrong_options_are_reported_in_one_line(draw_run, tmp_path):
    with pytest.raises(SystemExit, match="count must be a whole number above zero; got count=0"):
        main(["draw", str(draw_run[0]), "a red circle", "--count", "0"])
    with pytest.raises(SystemExit, match="path must end in .png, .svg, .pdf"):
        main(["draw", str(draw_run[0]), "a red circle", "--output", str(tmp_path / "x.gif")])
