import pytest
from PIL import Image

from tfx_transformer.train.cli import main
from tfx_transformer.train.run_folder import load_run


def test_images_are_classified_by_a_run_and_by_its_export(classify_run, pictures, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    Image.new("1", (9000, 9000)).save(tmp_path / "bomb.png")
    bad = [str(tmp_path / name) for name in ("bad.jpg", "gone.jpg", "bomb.png")]
    files = [str(pictures / "red/1.jpg"), *bad, str(pictures / "blue/2.png")]
    with pytest.raises(SystemExit, match="3 of 5 files could not be read"):
        main(["classify", str(classify_run[0]), *files, "--top-k", "2", "--batch-size", "2"])
    by_run = capsys.readouterr().out
    rows = [line.split("\t") for line in by_run.splitlines()]
    assert [row[0] for row in rows] == files and [len(row) for row in rows] == [3, 2, 2, 2, 3]
    assert rows[0][1].startswith("red 0.") and rows[1][1] == "unreadable (not an image)"
    assert rows[2][1] == "unreadable (No such file or directory)"
    assert rows[3][1] == "unreadable (too many pixels)"
    served = str(tmp_path / "served")
    main(["export", str(classify_run[0]), "--to", served, "--top-k", "2"])
    shown = capsys.readouterr().out
    assert "needs tensorflow-text: no" in shown and "images\n  in  image: float32" in shown
    with pytest.raises(SystemExit, match="3 of 5 files could not be read"):
        main(["classify", served, *files, "--top-k", "2"])
    assert capsys.readouterr().out == by_run


def test_an_export_returns_no_more_classes_than_it_was_made_for(classify_run, pictures, tmp_path):
    main(["export", str(classify_run[0]), "--to", str(tmp_path / "served"), "--top-k", "1"])
    with pytest.raises(SystemExit, match="top_k of .*served must be at most 1; got top_k=2"):
        main(["classify", str(tmp_path / "served"), str(pictures / "red/1.jpg"), "--top-k", "2"])


def test_a_litert_export_of_a_run_classifies_files(classify_run, pictures, tmp_path, capsys):
    folder = tmp_path / "small"
    main(["export", str(classify_run[0]), "--to", str(folder), "--format", "litert"])
    assert (folder / "model.tflite").stat().st_size > 1000
    assert "accuracy" in (folder / "README.md").read_text()
    assert (folder / "labels.txt").read_text().split() == ["blue", "green", "red"]
    capsys.readouterr()
    main(["inspect", str(folder)])
    size = load_run(classify_run[0]).model.image_size
    lines = ["serving_default", f"  in  image: float32 [?, {size}, {size}, 3]"]
    assert capsys.readouterr().out.splitlines()[:2] == lines
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    files = [str(pictures / "red/1.jpg"), str(tmp_path / "bad.jpg"), str(pictures / "blue/2.png")]
    with pytest.raises(SystemExit, match="1 of 3 files could not be read"):
        main(["classify", str(folder), *files])
    rows = [line.split("\t")[1].split()[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["red", "unreadable", "blue"]


def test_a_format_for_translators_is_refused(classify_run, tmp_path):
    command = ["export", str(classify_run[0]), "--to", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="of a classifier must be .*litert.* or saved_model"):
        main([*command, "--format", "ctranslate2"])
