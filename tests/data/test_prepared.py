"""What TFDS has prepared is read; what it has not is refused at once."""

import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfx_transformer.data.prepared import (
    LazyPictures,
    check_prepared,
    class_features,
    find_builder,
    read_classes,
)

PIXELS = np.random.default_rng(0).integers(0, 256, (23, 4, 5, 3)).astype("uint8")
LABELS = np.arange(23) % 3


@pytest.fixture(scope="module", params=["tfrecord", "array_record"])
def folder(request, tmp_path_factory):
    """A TFDS folder with a real, tiny set."""
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


def test_the_rows_asked_for_come_encoded_with_their_classes(folder):
    builder = find_builder("tiny", folder)
    check_prepared(builder, "tiny", folder)
    assert class_features("tiny", builder.info) == ("photo", "kind")
    rows = [0, 2, 3, 11, 22]
    items, labels = read_classes(builder, "train", rows, "photo", "kind")
    assert isinstance(items, LazyPictures) == ("array_record" in folder.name)
    assert labels == LABELS[rows].tolist()
    assert len(items) == 5 and all(isinstance(item, bytes) for item in items)
    for row, item in zip(rows, items, strict=True):
        np.testing.assert_array_equal(tf.io.decode_image(item), PIXELS[row])


def test_lazy_pictures_are_a_sequence_that_reads_what_it_is_asked_for():
    asked = []

    class Source:
        def __getitem__(self, row):
            asked.append(row)
            return {"photo": b"%d" % row, "kind": 0}

    items = LazyPictures(Source(), [3, 5, 8, 9], "photo")
    assert len(items) == 4 and not asked
    assert items[1] == b"5" and items[-1] == b"9" and asked == [5, 9]
    assert list(items[1:3]) == [b"5", b"8"]
    assert list(items) == [b"3", b"5", b"8", b"9"]
    with pytest.raises(IndexError):
        items[4]


def test_a_set_that_is_not_prepared_fails_at_once_with_what_to_do(tmp_path):
    start = time.monotonic()
    builder = find_builder("cifar10", tmp_path)
    with pytest.raises(FileNotFoundError, match="tfds:cifar10 is not prepared in") as raised:
        check_prepared(builder, "cifar10", tmp_path)
    assert time.monotonic() - start < 5
    command = f"tfds.builder('cifar10', data_dir='{tmp_path}').download_and_prepare()"
    assert command in str(raised.value)
    with pytest.raises(FileNotFoundError, match=r"', file_format='array_record'\)\.download"):
        check_prepared(builder, "cifar10", tmp_path, lazy=True)


def test_an_unknown_set_is_named(tmp_path):
    with pytest.raises(ValueError, match="unknown TFDS set 'no_such_set'"):
        find_builder("no_such_set", tmp_path)


@pytest.mark.parametrize(
    ("name", "features"),
    [("cifar100", ("image", "label")), ("oxford_flowers102", ("image", "label"))],
)
def test_the_picture_and_its_class_are_found(tmp_path, name, features):
    assert class_features(name, find_builder(name, tmp_path).info) == features


@pytest.mark.parametrize("name", ["ted_hrlr_translate/pt_to_en", "celeb_a", "coco/2017"])
def test_a_set_without_one_class_for_each_picture_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"tfds:{name} is no set for classification"):
        class_features(name, find_builder(name, tmp_path).info)
