import pytest

from tfx_transformer.train.cli import main


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


def test_pictures_are_described_in_order(caption_export, pictures, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    files = [str(pictures / "red/1.jpg"), str(tmp_path / "bad.jpg"), str(pictures / "blue/2.png")]
    main(["caption", str(caption_export), *files, "--batch-size", "2"])
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == files and [len(row) for row in rows] == [2, 2, 2]
    assert "red" in rows[0][1] and rows[1][1] == "unreadable" and "blue" in rows[2][1]


@pytest.mark.parametrize("command", ["classify", "caption"])
def test_a_missing_picture_is_told_before_any_answer(command, tmp_path):
    with pytest.raises(SystemExit, match="^tfx-transformer: no such file: .*none.jpg"):
        main([command, str(tmp_path), str(tmp_path / "none.jpg")])
    with pytest.raises(SystemExit, match="files must name at least one picture"):
        main([command, str(tmp_path)])
