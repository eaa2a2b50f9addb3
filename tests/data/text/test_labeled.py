"""Texts and classes from every kind of source; no text is in two splits."""

import gzip
from itertools import combinations

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfx_transformer.data.splits import SPLITS, assign_split
from tfx_transformer.data.text.labeled import Labeled, load_labeled

ROWS = [(f"text {i}, as it is", "positive" if i % 3 else "negative") for i in range(200)]


def as_list(labeled):
    return list(zip(labeled.texts, labeled.labels, strict=True))


@pytest.fixture
def tsv(tmp_path):
    path = tmp_path / "mail.tsv"
    path.write_text("".join(f" {text}\t{label}\n" for text, label in ROWS) + "\n")
    return path


def test_a_file_is_split_by_a_hash_of_the_text(tsv):
    for split in SPLITS:
        expected = [row for row in ROWS if assign_split(row[0]) == split]
        assert as_list(load_labeled(tsv, split)) == expected and 5 < len(expected) < 180


def test_only_the_given_splits_are_held_out(tsv):
    assert as_list(load_labeled(tsv, hold_out=())) == as_list(load_labeled(tsv, "test", ())) == ROWS
    kept = [row for row in ROWS if assign_split(row[0]) != "test"]
    assert as_list(load_labeled(tsv, hold_out=("test",))) == kept


def test_a_csv_file_may_have_line_feeds_in_a_text(tmp_path):
    path = tmp_path / "mail.csv.gz"
    lines = ["id,label,text", *(f'{i},{label},"{text}"' for i, (text, label) in enumerate(ROWS))]
    lines.append('200,negative,"two\nlines, ""quoted"""')
    path.write_bytes(gzip.compress("\r\n".join(lines).encode()))
    assert as_list(load_labeled(path, hold_out=())) == [*ROWS, ('two\nlines, "quoted"', "negative")]


def test_empty_texts_are_counted(tmp_path):
    path = tmp_path / "some.tsv"
    path.write_text("a\tx\n \ty\nb\ty\nc\t\n")
    labeled = load_labeled(path, hold_out=())
    assert as_list(labeled) == [("a", "x"), ("b", "y")] and labeled.skipped == {"empty": 2}
    assert str(labeled) == f"{path} (train): 2 texts of 2 classes; skipped: 2 empty"
    assert "skipped: none" in str(Labeled("it", ["a"], ["x"]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "one\tx\ntwo\n", r"a.tsv, line 2: must be text<TAB>label; got 0 tabs"),
        ("a.tsv", "one\tx\ntwo\tx\n", r"must have at least two classes; got 'x'"),
        ("a.tsv", "\n", "has no text with a label; skipped: none"),
        ("a.csv", "words,label\na,b\n", r"columns must include text and label; got \['words'"),
        ("a.txt", "one", r"unknown source .*a.txt'; known: \"FILE.tsv\""),
    ],
)
def test_an_invalid_file_is_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        load_labeled(str(path), hold_out=())


@pytest.mark.parametrize("spec", ["http:it.tsv", "embedded:emoji/en-ko", "embedded:languages/en"])
def test_an_unknown_source_is_named(spec):
    with pytest.raises(ValueError, match="unknown source|two or more"):
        load_labeled(spec)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*none.tsv"):
        load_labeled(tmp_path / "none.tsv")


def test_the_embedded_languages_have_no_name_in_two_splits():
    parts = {split: load_labeled("embedded:languages", split) for split in SPLITS}
    texts = [set(part.texts) for part in parts.values()]
    assert not any(one & other for one, other in combinations(texts, 2))
    assert all(len(set(part.labels)) == 8 for part in parts.values())
    three = load_labeled("embedded:languages/de-en-ko", "train")
    assert set(three.labels) == {"de", "en", "ko"} and ("sushi", "en") not in as_list(three)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A TFDS folder with a small data set, whose test split has no labels."""
    folder = tmp_path_factory.mktemp("tfds")

    def dataset(rows, label):
        texts = [text for text, _ in rows]
        labels = [label(name) for _, name in rows]
        columns = {"sentence": texts, "label": labels, "idx": list(range(len(rows)))}
        return tf.data.Dataset.from_tensor_slices(columns)

    tfds.dataset_builders.store_as_tfds_dataset(
        name="glue",
        config="sst2",
        version="2.0.0",
        data_dir=str(folder),
        features=tfds.features.FeaturesDict(
            {
                "sentence": tfds.features.Text(),
                "label": tfds.features.ClassLabel(names=["negative", "positive"]),
                "idx": tf.int32,
            }
        ),
        split_datasets={
            "train": dataset(ROWS, ["negative", "positive"].index),
            "validation": dataset(ROWS[:7], ["negative", "positive"].index),
            "test": dataset(ROWS[:5], lambda _: -1),
        },
        disable_shuffling=True,
    )
    return folder


def test_the_hidden_test_set_of_glue_is_its_validation_set(prepared):
    load = {split: load_labeled("tfds:glue/sst2", split, data_dir=prepared) for split in SPLITS}
    assert as_list(load["test"]) == ROWS[:7]
    for split, stored in (("train", ("train", "test")), ("validation", ("validation",))):
        assert as_list(load[split]) == [row for row in ROWS if assign_split(row[0]) in stored]


def test_a_missing_split_that_is_not_held_out_is_named(prepared):
    with pytest.raises(ValueError, match="has no split validation; it has train, test"):
        load_labeled("tfds:glue/sst2", "validation", (), data_dir=prepared)


def test_a_tfds_data_set_of_another_task_is_refused(tmp_path):
    with pytest.raises(ValueError, match="tfds:mnist must have one text feature and one class"):
        load_labeled("tfds:mnist", data_dir=tmp_path)
