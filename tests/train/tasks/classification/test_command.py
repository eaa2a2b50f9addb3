import pytest

from tfx_transformer.train.cli import main


def test_images_are_classified_by_a_run_and_by_its_export(classify_run, pictures, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    files = [str(pictures / "red/1.jpg"), str(tmp_path / "bad.jpg"), str(pictures / "blue/2.png")]
    main(["classify", str(classify_run[0]), *files, "--top-k", "2", "--batch-size", "2"])
    by_run = capsys.readouterr().out
    rows = [line.split("\t") for line in by_run.splitlines()]
    assert [row[0] for row in rows] == files and [len(row) for row in rows] == [3, 2, 3]
    assert rows[0][1].startswith("red 0.") and rows[1][1] == "unreadable"
    served = str(tmp_path / "served")
    main(["export", str(classify_run[0]), "--to", served, "--top-k", "2"])
    shown = capsys.readouterr().out
    assert "needs tensorflow-text: no" in shown and "images\n  in  image: float32" in shown
    main(["classify", served, *files, "--top-k", "2"])
    assert capsys.readouterr().out == by_run


def test_a_missing_image_is_reported_before_any_result(tmp_path):
    with pytest.raises(SystemExit, match="^tfx-transformer: no such file: .*none.jpg"):
        main(["classify", str(tmp_path), str(tmp_path / "none.jpg")])


def test_an_export_returns_no_more_classes_than_it_was_made_for(classify_run, pictures, tmp_path):
    main(["export", str(classify_run[0]), "--to", str(tmp_path / "served"), "--top-k", "1"])
    with pytest.raises(SystemExit, match="top_k of .*served must be at most 1; got top_k=2"):
        main(["classify", str(tmp_path / "served"), str(pictures / "red/1.jpg"), "--top-k", "2"])


def test_a_run_is_exported_to_litert(classify_run, tmp_path):
    folder = tmp_path / "small"
    main(["export", str(classify_run[0]), "--to", str(folder), "--format", "litert"])
    assert (folder / "model.tflite").stat().st_size > 1000
    assert "accuracy" in (folder / "README.md").read_text()
    assert (folder / "labels.txt").read_text().split() == ["blue", "green", "red"]


def test_a_format_for_translators_is_refused(classify_run, tmp_path):
    command = ["export", str(classify_run[0]), "--to", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="of a classifier must be .*litert.* or saved_model"):
        main([*command, "--format", "ctranslate2"])
