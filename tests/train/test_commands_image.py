import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfx_transformer.train.cli import main
from tfx_transformer.train.commands_image import read_file


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


def test_a_picture_is_turned_upright_as_in_training(tmp_path):
    pixels = np.zeros((6, 10, 3), "uint8")
    pixels[:, :5] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    read = tf.io.decode_image(read_file(str(tmp_path / "turned.png")))
    assert read.shape == (10, 6, 3) and read[0].numpy().min() == 255 and not read[9].numpy().any()


def test_an_export_names_no_more_classes_than_it_was_made_for(classify_run, pictures, tmp_path):
    main(["export", str(classify_run[0]), "--to", str(tmp_path / "served"), "--top-k", "1"])
    with pytest.raises(SystemExit, match="top_k must be at most 1, with which .*served was export"):
        main(["classify", str(tmp_path / "served"), str(pictures / "red/1.jpg"), "--top-k", "2"])
