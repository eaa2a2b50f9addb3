"""Rows in files against lists."""

import numpy as np
import pytest

from tfx_transformer.data.stored import (
    Rows,
    Texts,
    cached_array,
    has_rows,
    hash_files,
    read_rows,
    text_block,
    write_rows,
)

ROWS = [[3, 1], [], [70000], [5, 6, 7, 8], []]


def test_rows_that_were_written_in_blocks_are_those_of_a_list(tmp_path):
    path = tmp_path / "it"
    with write_rows(path, "int32") as add:
        for part in (ROWS[:2], ROWS[2:]):
            add(np.array([x for row in part for x in row], int), np.array([len(x) for x in part]))
        assert not has_rows(path)
    rows = read_rows(path, "int32")
    assert has_rows(path) and len(rows) == 5
    np.testing.assert_array_equal(rows.lengths(), [2, 0, 1, 4, 0])
    values, lengths = rows.take(np.array([3, 1, 0]), most=3)
    assert values.tolist() == [5, 6, 7, 3, 1] and lengths.tolist() == [3, 0, 2]
    chosen = rows.select(np.array([4, 3, 2])).select(np.array([1, 2]))
    assert chosen.lengths().tolist() == [4, 1] and len(chosen) == 2
    assert chosen.take(np.array([1, 0]), most=9)[0].tolist() == [70000, 5, 6, 7, 8]


def test_rows_without_any_value_can_be_read(tmp_path):
    with write_rows(tmp_path / "it", "uint16") as add:
        add(np.zeros(0, int), np.array([0, 0]))
    assert read_rows(tmp_path / "it", "uint16").lengths().tolist() == [0, 0]


def test_nothing_is_left_of_rows_that_could_not_be_written(tmp_path):
    with pytest.raises(OSError, match="disk"), write_rows(tmp_path / "it", "int32"):
        raise OSError("disk")
    assert not list(tmp_path.iterdir())


def test_texts_are_those_of_a_list(tmp_path):
    words = ["é", "", "고양이", "two words", "😀"]
    values, lengths = text_block(words)
    texts = Texts(Rows(values, np.concatenate([[0], np.cumsum(lengths)])), tmp_path)
    assert list(texts) == words and texts[-2] == words[-2]
    assert texts[1:5:2] == words[1:5:2]
    chosen = texts.select(np.array([4, 0]))
    assert chosen[:] == ["😀", "é"]
    assert list(chosen.all_in_blocks(2)) == [words[:2], words[2:4], words[4:]]
    with pytest.raises(IndexError):
        texts[5]


def test_a_cached_array_is_made_once(tmp_path):
    makes = iter([np.arange(3)])
    for _ in range(2):
        np.testing.assert_array_equal(cached_array(tmp_path, "it", lambda: next(makes)), [0, 1, 2])


def test_a_hash_is_that_of_contents_and_options(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("a")
    other.write_text("a")
    assert hash_files([one], 5) == hash_files([other], 5)
    assert len({hash_files([one], 5), hash_files([one], 6), hash_files([one, other], 5)}) == 3
    other.write_text("b")
    assert hash_files([one], 5) != hash_files([other], 5)
    with pytest.raises(FileNotFoundError, match="no such file"):
        hash_files([tmp_path / "none"])
