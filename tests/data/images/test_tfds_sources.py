"""Images from TFDS data sets, and every error of such a data set."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfx_transformer.data.images.sources import load_images
from tfx_transformer.data.splits import SPLITS, assign_split


def as_dict(images):
    """{number of the image: name of its class}."""
    pixels = [tf.io.decode_image(item, channels=3).numpy() for item in images.items]
    names = [images.class_names[label] for label in images.labels]
    return dict(zip([int(x[0, 1, 0]) for x in pixels], names, strict=True))


def prepare(folder, file_format="tfrecord", labels=("ape", "cat"), **counts):
    """Stores a small data set of numbered images: train from 0 on, the others from 100 on."""
    splits = {}
    for split, count in counts.items():
        first = 0 if split == "train" else 100
        pixels = np.zeros((count, 2, 3, 3), "uint8")
        pixels[:, 0, 1] = first + np.arange(count)[:, None]
        kinds = np.arange(count) % len(labels) if split != "secret" else -np.ones(count, int)
        splits["test" if split == "secret" else split] = tf.data.Dataset.from_tensor_slices(
            {"image": pixels, "label": kinds}
        )
    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny",
        version="1.0.0",
        data_dir=str(folder),
        features=tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(2, 3, 3)),
                "label": tfds.features.ClassLabel(names=list(labels)),
            }
        ),
        split_datasets=splits,
        file_format=file_format,
        disable_shuffling=True,
    )
    return folder


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_stored_splits_are_read_and_missing_ones_are_held_out_from_train(tmp_path, file_format):
    prepare(tmp_path, file_format, train=60, test=9)
    parts = {split: load_images("tfds:tiny", split, data_dir=tmp_path) for split in SPLITS}
    rows = {row for row in range(60) if assign_split(str(row)) == "validation"}
    numbers = {"train": set(range(60)) - rows, "validation": rows, "test": set(range(100, 109))}
    for split, images in parts.items():
        assert as_dict(images) == {n: ("ape", "cat")[n % 2] for n in numbers[split]}
        assert list(as_dict(images)) == sorted(numbers[split])
        assert images.class_names == ["ape", "cat"] and images.labels.dtype == np.int32
        assert isinstance(images.items, list) == (file_format == "tfrecord")
        assert images.name == f"tfds:tiny ({split})"


def test_a_split_named_val_is_the_validation_set(tmp_path):
    prepare(tmp_path, train=30, val=4)
    images = load_images("tfds:tiny", "validation", data_dir=tmp_path)
    assert list(as_dict(images)) == [100, 101, 102, 103]
    assert set(as_dict(load_images("tfds:tiny", data_dir=tmp_path))) == {
        row for row in range(30) if assign_split(str(row)) != "test"
    }


def test_a_split_without_labels_is_refused(tmp_path):
    prepare(tmp_path, train=4, secret=3)
    with pytest.raises(ValueError, match="tfds:tiny has no labels in its split test"):
        load_images("tfds:tiny", "test", data_dir=tmp_path)


def test_a_data_set_must_have_a_training_set_and_two_classes(tmp_path):
    prepare(tmp_path / "a", test=4)
    with pytest.raises(ValueError, match=r"tfds:tiny must have a split train; got \['test'\]"):
        load_images("tfds:tiny", "test", data_dir=tmp_path / "a")
    prepare(tmp_path / "b", labels=["ape"], train=4)
    with pytest.raises(ValueError, match="tfds:tiny must have at least two classes; got ape"):
        load_images("tfds:tiny", data_dir=tmp_path / "b")


def test_a_data_set_that_is_not_prepared_or_unknown_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tfds:cifar10 is not prepared in .*\n.*download_"):
        load_images("tfds:cifar10", data_dir=tmp_path)
    with pytest.raises(ValueError, match="unknown TFDS data set 'no_such_set'"):
        load_images("tfds:no_such_set", data_dir=tmp_path)
    with pytest.raises(ValueError, match="must have one image feature and one class label"):
        load_images("tfds:ted_hrlr_translate/pt_to_en", data_dir=tmp_path)
