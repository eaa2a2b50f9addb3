import os

import numpy as np
import pytest
from PIL import Image

from tfx_transformer.data.images.pixels import decode
from tfx_transformer.train.tasks.lines import (
    check_files,
    one_line,
    read_chunks,
    read_image_file,
    warn_truncated,
)


def test_lines_are_read_without_their_ends_in_chunks(standard_input):
    standard_input(b"red cat\r\n\nbig old dog")
    assert list(read_chunks(2)) == [["red cat", ""], [], ["big old dog"]]


def test_a_line_that_is_not_utf_8_is_named_after_those_before_it(standard_input):
    standard_input(b"red cat\n\xff\xfe\nbig dog\n")
    chunks = read_chunks(9)
    assert next(chunks) == ["red cat"]
    with pytest.raises(ValueError, match="line 2 of standard input is not UTF-8"):
        next(chunks)


def test_waiting_lines_come_together_and_a_single_one_at_once(monkeypatch):
    reading, writing = os.pipe()
    with os.fdopen(reading) as file:
        monkeypatch.setattr("sys.stdin", file)
        chunks = read_chunks(100)
        os.write(writing, b"one\n")
        assert next(chunks) == ["one"]  # the pipe is still open
        for line in (b"two\n", b"three\nfour\nfi", b"ve\n"):
            os.write(writing, line)
        assert next(chunks) == ["two", "three", "four", "five"]
        os.close(writing)
        assert list(chunks) == []


def test_a_person_at_a_terminal_sees_what_to_type(monkeypatch, capsys):
    terminal, keyboard = os.openpty()
    os.write(terminal, b"red cat\n")
    with os.fdopen(keyboard) as file:
        monkeypatch.setattr("sys.stdin", file)
        chunks = read_chunks(9)
        assert next(chunks) == ["red cat"]
        os.write(terminal, b"\x04")  # Ctrl-D
        assert list(chunks) == []
    os.close(terminal)
    assert capsys.readouterr().err == "one text per line; Ctrl-D ends\n"


def test_a_file_that_is_not_read_has_a_reason(tmp_path, classifier):
    path = str(tmp_path / "none.jpg")
    assert read_image_file(path, classifier) == (b"", "unreadable (No such file or directory)")
    with pytest.raises(ValueError, match="files must name at least one image"):
        check_files(())


def test_an_image_is_turned_upright_as_in_training(tmp_path, classifier):
    pixels = np.zeros((6, 10, 3), "uint8")
    pixels[:, :5] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # rotate by 90 degrees
    Image.fromarray(pixels).save(tmp_path / "turned.png", exif=exif)
    data, _ = read_image_file(str(tmp_path / "turned.png"), classifier)
    read = decode(data).numpy()
    assert read.shape == (10, 6, 3) and read[0].min() == 255 and not read[9].any()


def test_a_text_with_line_feeds_is_one_line():
    assert one_line("red\ncat\u2028 dog") == "red cat\u2028 dog"


def test_truncated_texts_are_counted_in_one_line(capsys):
    for count, start in ((1, "1 text was"), (2, "2 texts were")):
        warn_truncated(count, "use less")
        assert capsys.readouterr().err == f"{start} too long and truncated: use less\n"
    warn_truncated(0, "use less")
    assert capsys.readouterr().err == ""
