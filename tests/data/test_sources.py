"""What all data sources share; see also the tests of each source."""

from pathlib import Path

import pytest

from tfx_transformer.data.sources import check_path, describe_counts, describe_files


def test_a_path_may_be_a_windows_drive_but_not_another_scheme():
    assert check_path("C:\\data", "a folder") == Path("C:\\data")
    assert check_path(Path("a/b"), "a folder") == Path("a/b")
    for spec in ("http://host/a", "hf:a/b", 7, None):
        with pytest.raises(ValueError, match=f"unknown source {spec!r}; known: a folder"):
            check_path(spec, "a folder")


def test_skipped_examples_are_described_in_a_few_words():
    assert describe_counts({"empty": 1234, "over 9 tokens": 1}) == "1,234 empty, 1 over 9 tokens"
    assert describe_files({"a.png": "truncated", "b": "bad"}) == "2 (a.png: truncated, b: bad)"
    assert (
        describe_files(dict.fromkeys("abc", "bad"), limit=2) == "3 (a: bad, b: bad, … and 1 more)"
    )
    assert describe_counts({}) == describe_files({}) == "none"
