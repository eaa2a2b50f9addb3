"""Prepared TFDS data sets are read; others are refused at once."""

import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfx_transformer.data.tfds import (
    LazyImages,
    class_features,
    find_builder,
    read_examples,
    require_prepared,
    stored_splits,
)

PIXELS = np.random.default_rng(0).integers(0, 256, (23, 4, 5, 3)).astype("uint8")
LABELS = np.arange(23) % 3


@pytest.fixture(scope="module", params=["tfrecord", "array_record"])
def folder(request, tmp_path_factory):
    """A TFDS folder with a small data set."""
    folder = tmp_path_factory.mktemp(request.param)
    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny",
        version="1.0.0",
        data_dir=str(folder),
        features=tfds.features.FeaturesDict(
            {
                "photo": tfds.features.Image(shape=(4, 5, 3)),
                "kind": tfds.features.ClassLabel(names=["x", "y", "z"]),
                "place": tfds.features.Text(),
            }
        ),
        split_datasets={
            "train": tf.data.Dataset.from_tensor_slices(
                {"photo": PIXELS, "kind": LABELS, "place": ["here"] * 23}
            )
        },
        file_format=request.param,
        disable_shuffling=True,
    )
    return folder


def test_examples_have_encoded_images_and_labels(folder):
    builder = find_builder("tiny", folder)
    require_prepared(builder, "tiny", folder)
    assert stored_splits(builder) == {"train": "train"}
    assert class_features("tiny", builder.info, tfds.features.Image) == ("photo", "kind")
    rows = {0, 2, 3, 11, 22}
    source = read_examples(builder, "train", ("photo", "kind"), rows)
    is_lazy = "array_record" in folder.name
    assert len(source) == 23 if is_lazy else set(source) == rows
    for row in rows:
        assert source[row]["kind"] == LABELS[row]
        np.testing.assert_array_equal(tf.io.decode_image(source[row]["photo"]), PIXELS[row])
    if not is_lazy:
        assert list(read_examples(builder, "train", ["kind"])) == list(range(23))


def test_lazy_images_are_a_sequence_that_reads_on_access():
    accessed = []

    class Source:
        def __getitem__(self, row):
            accessed.append(row)
            return {"photo": b"%d" % row, "kind": 0}

        def __getitems__(self, rows):
            return [self[row] for row in rows]

    items = LazyImages(Source(), [3, 5, 8, 9], "photo")
    assert len(items) == 4 and not accessed
    assert items[1] == b"5" and items[-1] == b"9" and accessed == [5, 9]
    assert list(items[1:3]) == [b"5", b"8"]
    assert items.take([2, 0]) == [b"8", b"3"]
    assert list(items) == [b"3", b"5", b"8", b"9"]
    with pytest.raises(IndexError):
        items[4]


def test_a_data_set_that_is_not_prepared_fails_at_once_with_the_command_to_run(tmp_path):
    start = time.monotonic()
    builder = find_builder("cifar10", tmp_path)
    with pytest.raises(FileNotFoundError, match="tfds:cifar10 is not prepared in") as raised:
        require_prepared(builder, "cifar10", tmp_path)
    assert time.monotonic() - start < 5
    command = f"tfds.builder('cifar10', data_dir='{tmp_path}').download_and_prepare()"
    assert command in str(raised.value)
    with pytest.raises(FileNotFoundError, match=r"', file_format='array_record'\)\.download"):
        require_prepared(builder, "cifar10", tmp_path, lazy=True)


def test_an_unknown_data_set_is_named(tmp_path):
    with pytest.raises(ValueError, match="unknown TFDS data set 'no_such_set'"):
        find_builder("no_such_set", tmp_path)


@pytest.mark.parametrize(
    ("name", "features"),
    [("cifar100", ("image", "label")), ("oxford_flowers102", ("image", "label"))],
)
def test_the_image_and_its_class_are_found(tmp_path, name, features):
    info = find_builder(name, tmp_path).info
    assert class_features(name, info, tfds.features.Image) == features


@pytest.mark.parametrize("name", ["ted_hrlr_translate/pt_to_en", "celeb_a", "coco/2017"])
def test_a_data_set_without_one_class_for_each_image_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"tfds:{name} must have one image feature and one class"):
        class_features(name, find_builder(name, tmp_path).info, tfds.features.Image)
