import pytest

from tfx_transformer.train.cli import main


def test_images_are_described_in_order(caption_export, pictures, tmp_path, capsys):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    files = [str(pictures / "red/1.jpg"), str(tmp_path / "bad.jpg"), str(pictures / "blue/2.png")]
    with pytest.raises(SystemExit, match="1 of 3 files could not be read"):
        main(["caption", str(caption_export), *files, "--batch-size", "2"])
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == files and [len(row) for row in rows] == [2, 2, 2]
    assert (
        "red" in rows[0][1] and rows[1][1] == "unreadable (not an image)" and "blue" in rows[2][1]
    )


def test_no_image_is_reported_in_one_line(tmp_path):
    with pytest.raises(SystemExit, match="files must name at least one image"):
        main(["caption", str(tmp_path)])
