"""Sentence pairs from every kind of source, and every error of such a source."""

import gzip
import time

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfx_transformer.data.text.pairs import Pairs, load_pairs

LINES = [("one dog", "ein Hund"), ("two cats", "zwei Katzen"), ("강아지", "Hündchen")]


def write(path, lines, newline="\n"):
    data = "".join(line + newline for line in lines).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    path.write_bytes(data)
    return path


def write_both(folder, pairs=LINES, suffix="", newline="\n"):
    source = write(folder / f"a.en{suffix}", [pair[0] for pair in pairs], newline)
    target = write(folder / f"a.de{suffix}", [pair[1] for pair in pairs], newline)
    return [source, target]


def write_tsv(folder, pairs=LINES, suffix=""):
    return write(folder / f"a.tsv{suffix}", [f"{one}\t{other}" for one, other in pairs])


def as_list(pairs):
    return list(zip(pairs.source, pairs.target, strict=True))


def test_two_files_are_read_line_by_line(tmp_path):
    files = write_both(tmp_path)
    assert as_list(load_pairs(files)) == LINES
    assert as_list(load_pairs([str(file) for file in files])) == LINES
    assert as_list(load_pairs(f"{files[0]},{files[1]}")) == LINES


@pytest.mark.parametrize("make", [write_both, write_tsv])
def test_gzip_files_are_read_like_plain_files(tmp_path, make):
    assert as_list(load_pairs(make(tmp_path, suffix=".gz"))) == LINES
    assert as_list(load_pairs(make(tmp_path))) == LINES


def test_a_tsv_file_is_read(tmp_path):
    assert as_list(load_pairs(write_tsv(tmp_path))) == LINES
    assert as_list(load_pairs(str(write_tsv(tmp_path)))) == LINES


def test_a_list_of_pairs_is_a_source():
    assert as_list(load_pairs(LINES)) == LINES
    assert as_list(load_pairs([["a", "b"], ["c", "d"]])) == [("a", "b"), ("c", "d")]


def test_the_embedded_emoji_names_are_a_source():
    pairs = load_pairs("embedded:emoji/en-ko", "test")
    assert ("penguin", "펭귄") in as_list(load_pairs("embedded:emoji/en-ko"))
    assert pairs.name == "embedded:emoji/en-ko (test)"
    assert len(pairs) > 300 and not pairs.skipped


def test_the_embedded_phrases_are_a_source():
    pairs = load_pairs("embedded:cldr/en-ko", "test")
    assert ("Wednesday", "수요일") in [
        pair
        for split in ("train", "validation", "test")
        for pair in as_list(load_pairs("embedded:cldr/en-ko", split))
    ]
    assert pairs.name == "embedded:cldr/en-ko (test)" and len(pairs) == 500


def test_only_white_space_around_a_line_is_stripped(tmp_path):
    odd = [("  a\u2028b \u00a0", "x  y\u0085z"), ("<s> \ufeff", "▁ﬁ")]
    pairs = load_pairs(write_both(tmp_path, odd, newline="\r\n"))
    assert as_list(pairs) == [("a\u2028b", "x  y\u0085z"), ("<s> \ufeff", "▁ﬁ")]


def test_a_byte_order_mark_is_removed(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"\xef\xbb\xbfa\tb\n")
    assert as_list(load_pairs(path)) == [("a", "b")]


def test_skipped_pairs_are_counted():
    rows = [
        ("a", "b"),
        ("", "x"),
        (" \t", "y"),
        ("z", ""),
        ("", ""),
        ("c" * 11, "d"),
        ("e", "f" * 10),
    ]
    pairs = load_pairs(rows, max_characters=10)
    assert as_list(pairs) == [("a", "b"), ("e", "f" * 10)]
    assert pairs.skipped == {"empty source": 3, "empty target": 1, "over 10 characters": 1}
    assert sum(pairs.skipped.values()) + len(pairs) == len(rows)


def test_pairs_describe_themselves_in_one_line():
    line = str(Pairs("mine", ["a"] * 1234, ["b"] * 1234, {"empty source": 2, "empty target": 1}))
    assert line == "mine: 1,234 pairs; skipped: 2 empty source, 1 empty target"
    assert str(Pairs("mine", ["a"], ["b"])).endswith("skipped: none")


def test_a_blank_last_line_is_ignored(tmp_path):
    source = write(tmp_path / "a.en", ["one", "two", ""])
    target = write(tmp_path / "a.de", ["eins", "zwei"])
    expected = [("one", "eins"), ("two", "zwei")]
    assert as_list(load_pairs([source, target])) == expected
    assert as_list(load_pairs([target, source])) == [(b, a) for a, b in expected]
    assert (
        as_list(load_pairs(write(tmp_path / "a.tsv", ["one\teins", "two\tzwei", ""]))) == expected
    )


def test_an_empty_last_translation_keeps_the_files_aligned(tmp_path):
    source = write(tmp_path / "a.en", ["one", "two"])
    target = write(tmp_path / "a.de", ["eins", ""])
    pairs = load_pairs([source, target])
    assert as_list(pairs) == [("one", "eins")]
    assert pairs.skipped == {"empty target": 1}


def test_files_of_different_lengths_are_refused_with_both_counts(tmp_path):
    source, target = write_both(tmp_path)
    write(source, ["x"] * 5)
    with pytest.raises(ValueError, match=r"same number of lines; got .*a\.en: 5, .*a\.de: 3"):
        load_pairs([source, target])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*gone\.en"):
        load_pairs([tmp_path / "gone.en", tmp_path / "gone.de"])
    with pytest.raises(FileNotFoundError, match=r"no such file: .*gone\.tsv\.gz"):
        load_pairs(tmp_path / "gone.tsv.gz")


def test_one_file_of_one_language_is_refused(tmp_path):
    path = write(tmp_path / "a.en", ["one"])
    with pytest.raises(
        ValueError, match=r"one file must be \.tsv .*; or give two files; got .*a\.en"
    ):
        load_pairs(path)


@pytest.mark.parametrize(("line", "tabs"), [("no tab", 0), ("a\tb\tc", 2)])
def test_a_tsv_line_without_exactly_one_tab_is_named(tmp_path, line, tabs):
    path = write(tmp_path / "a.tsv", ["a\tb", line, "c\td"])
    with pytest.raises(ValueError, match=rf"a\.tsv, line 2: must be source<TAB>target; got {tabs}"):
        load_pairs(path)


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
def test_text_that_is_not_utf8_is_named_with_its_line(tmp_path, name):
    data = b"a\tb\nc\td\nf\xfcnf\tfive\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(ValueError, match=rf"{name}, line 3: is not UTF-8"):
        load_pairs(tmp_path / name)


@pytest.mark.parametrize("damage", [lambda data: data[:-12], lambda data: b"plain text\n"])
def test_a_broken_gzip_file_is_named(tmp_path, damage):
    path = write_tsv(tmp_path, suffix=".gz")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.tsv\.gz is not a valid gzip file"):
        load_pairs(path)


@pytest.mark.parametrize("spec", ["hf:wmt16/de-en", "a.txt", "http://host/a.tsv", 7, None])
def test_an_unknown_source_is_refused_with_the_known_ones(spec):
    with pytest.raises(ValueError, match=r"unknown source .*; known: .*\.tsv.*tfds:.*embedded:"):
        load_pairs(spec)


@pytest.mark.parametrize("spec", ["embedded:emoji", "embedded:words/en-ko"])
def test_an_unknown_embedded_source_is_refused_with_the_known_ones(spec):
    with pytest.raises(
        ValueError, match=rf"unknown source '{spec}'; known: embedded:cldr/.*emoji/"
    ):
        load_pairs(spec)


def test_an_unknown_language_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown language 'xx'; known: .*\bde\b.*"):
        load_pairs("embedded:emoji/en-xx")


def test_a_source_without_a_usable_pair_gives_the_reason(tmp_path):
    with pytest.raises(ValueError, match=r"a\.tsv has no usable pair; skipped: 2 empty target"):
        load_pairs(write(tmp_path / "a.tsv", ["a\t", "b\t "]))
    with pytest.raises(ValueError, match="has no usable pair; skipped: none"):
        load_pairs([])


@pytest.mark.parametrize("pair", ["ab", ("a",), ("a", "b", "c"), ("a", 1)])
def test_a_pair_that_is_not_two_strings_is_named(pair):
    with pytest.raises(ValueError, match=r"two strings; got pair 1"):
        load_pairs([("a", "b"), pair, ("c", "d")])


def test_files_have_no_other_split_than_train(tmp_path):
    with pytest.raises(ValueError, match=r"a\.tsv has no splits; .*got split='test'"):
        load_pairs(write_tsv(tmp_path), "test")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A TFDS folder with a small data set under the name of a known one."""
    folder = tmp_path_factory.mktemp("tfds")
    splits = {"train": LINES, "validation": LINES[:1]}
    tfds.dataset_builders.store_as_tfds_dataset(
        name="ted_hrlr_translate",
        config="pt_to_en",
        version="1.0.0",
        data_dir=str(folder),
        features=tfds.features.Translation(["pt", "en"]),
        split_datasets={
            split: tf.data.Dataset.from_tensor_slices(
                {"pt": [pair[0] for pair in pairs], "en": [pair[1] for pair in pairs]}
            )
            for split, pairs in splits.items()
        },
        disable_shuffling=True,
    )
    return folder


def test_a_prepared_tfds_data_set_is_read(prepared):
    spec = "tfds:ted_hrlr_translate/pt_to_en"
    assert as_list(load_pairs(spec, data_dir=prepared)) == LINES
    assert as_list(load_pairs(spec, "validation", data_dir=prepared)) == LINES[:1]
    assert load_pairs(spec, data_dir=prepared).name == f"{spec} (train)"


def test_the_direction_of_a_tfds_data_set_can_be_reversed(prepared):
    pairs = load_pairs("tfds:ted_hrlr_translate/pt_to_en@en-pt", data_dir=prepared)
    assert as_list(pairs) == [(b, a) for a, b in LINES]


def test_an_unknown_tfds_direction_is_refused_with_the_known_ones(prepared):
    with pytest.raises(ValueError, match=r"no direction 'en-ko'; known: .*@pt-en, .*@en-pt"):
        load_pairs("tfds:ted_hrlr_translate/pt_to_en@en-ko", data_dir=prepared)


def test_a_tfds_data_set_that_is_not_prepared_fails_at_once_with_the_command_to_run(tmp_path):
    start = time.monotonic()
    with pytest.raises(FileNotFoundError) as raised:
        load_pairs("tfds:ted_hrlr_translate/pt_to_en", data_dir=tmp_path)
    assert time.monotonic() - start < 5
    assert "is not prepared" in str(raised.value)
    command = f"tfds.builder('ted_hrlr_translate/pt_to_en', data_dir='{tmp_path}')"
    assert f"{command}.download_and_prepare()" in str(raised.value)


def test_an_unknown_tfds_data_set_is_named(tmp_path):
    with pytest.raises(ValueError, match="unknown TFDS data set 'no_such_set'"):
        load_pairs("tfds:no_such_set", data_dir=tmp_path)


def test_a_tfds_data_set_of_images_is_refused(tmp_path):
    with pytest.raises(ValueError, match="tfds:mnist is not for translation"):
        load_pairs("tfds:mnist", data_dir=tmp_path)


def test_pairs_in_a_cache_are_those_in_memory_and_are_read_once(tmp_path, monkeypatch):
    lines = ["é cat ", "", "two", "x" * 30, "고양이"], [" eine Katze", "leer", "zwei", "y", "cat"]
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file, own in zip(files, lines, strict=True):
        file.write_text("\n".join(own))
    cache = tmp_path / "cache"
    expected = load_pairs(files, max_characters=20)
    stored = load_pairs(files, max_characters=20, cache=cache)
    assert (stored.name, stored.skipped) == (expected.name, expected.skipped)
    assert list(stored.source) == expected.source and list(stored.target) == expected.target
    files[0].touch()
    with monkeypatch.context() as patch:
        patch.delattr("tfx_transformer.data.text.pairs._write_pairs")  # not needed again
        assert load_pairs(files, max_characters=20, cache=cache).source[1] == "two"
    assert len(load_pairs(files, cache=cache)) == len(expected) + 1
    files[1].write_text("\n".join(reversed(lines[1])))
    assert load_pairs(files, max_characters=20, cache=cache).target[0] == "cat"


def test_bad_pairs_leave_no_cache(tmp_path):
    file = tmp_path / "pairs.tsv"
    for content, error in (("a\tb\nbroken", "line 2"), (" \tb", "no usable pair")):
        file.write_text(content)
        with pytest.raises(ValueError, match=error):
            load_pairs(file, cache=tmp_path / "runs/it/cache")
        assert list(tmp_path.iterdir()) == [file]
