"""A text in three parts: nothing lost, nothing twice."""

import pytest

from tfx_transformer.train.tasks.language_model import PlainTextData
from tfx_transformer.train.tasks.text import cut, read_splits


@pytest.fixture
def tale(tmp_path):
    path = tmp_path / "tale.txt"
    path.write_text("".join(f"line {i} of the tale\n" for i in range(200)))
    return path


def test_what_is_not_named_is_the_end_of_the_text(tale):
    splits = read_splits(PlainTextData(str(tale)))
    assert splits["train"] + splits["validation"] + splits["test"] == tale.read_text()
    assert all(text.startswith("line ") and text.endswith("\n") for text in splits.values())
    sizes = [len(splits[name]) / len(tale.read_text()) for name in ("validation", "test")]
    assert sizes == pytest.approx([0.05, 0.05], abs=0.01)


def test_what_is_named_is_a_file_of_its_own(tale, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("another tale")
    splits = read_splits(PlainTextData(str(tale), validation=str(other)))
    assert splits["validation"] == "another tale"
    assert splits["train"] + splits["test"] == tale.read_text()
    splits = read_splits(PlainTextData(str(tale), str(other), str(other)))
    assert (splits["train"], splits["test"]) == (tale.read_text(), "another tale")


@pytest.mark.parametrize(
    ("text", "size", "place"),
    [("abc\ndef\n", 4, 4), ("abc\ndef\n", 5, 4), ("abcdefgh", 3, 5), ("abc\n", 2, 2), ("ab", 9, 0)],
)
def test_a_cut_is_at_the_end_of_a_line_where_there_is_one(text, size, place):
    assert cut(text, size) == (text[:place], text[place:])
