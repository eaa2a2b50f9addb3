"""Captions from TFDS data sets."""

import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfx_transformer.data.captions.sources import load_captions
from tfx_transformer.data.tfds import LazyImages


def as_dict(captions):
    """{name: (number of the image, its captions)}."""
    numbers = [int(tf.io.decode_image(item, channels=3)[0, 0, 0]) for item in captions.items]
    return dict(zip(captions.files, zip(numbers, captions.texts, strict=True), strict=True))


FEATURES = {
    "image": tfds.features.Image(shape=(None, None, 3)),
    "image/filename": tfds.features.Text(),
    "captions": tfds.features.Sequence({"id": np.int64, "text": tfds.features.Text()}),
}


def prepare(folder, file_format, **splits):
    """Stores a small data set like coco_captions; a split is {name: (number, texts)}."""

    def dataset(examples):
        def generate():
            for name, (number, texts) in examples.items():
                yield {
                    "image": np.full((2, 3, 3), number, "uint8"),
                    "image/filename": name,
                    "captions": {"id": np.arange(len(texts)), "text": np.array(texts, object)},
                }

        words = {"id": tf.TensorSpec([None], tf.int64), "text": tf.TensorSpec([None], tf.string)}
        signature = {
            "image": tf.TensorSpec([None, None, 3], tf.uint8),
            "image/filename": tf.TensorSpec([], tf.string),
            "captions": words,
        }
        return tf.data.Dataset.from_generator(generate, output_signature=signature)

    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny",
        version="1.0.0",
        data_dir=str(folder),
        features=tfds.features.FeaturesDict(FEATURES),
        split_datasets={split: dataset(examples) for split, examples in splits.items()},
        file_format=file_format,
        disable_shuffling=True,
    )


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_a_prepared_data_set_is_read(tmp_path, file_format):
    train = {"2.jpg": (20, ["straße", "b"]), "1.jpg": (10, ["", " c "]), "0.jpg": (0, [])}
    prepare(tmp_path, file_format, train=train, val={"3.jpg": (30, ["d"])})
    captions = load_captions("tfds:tiny", data_dir=tmp_path)
    assert as_dict(captions) == {"1.jpg": (10, ["c"]), "2.jpg": (20, ["straße", "b"])}
    assert captions.skipped == {"1.jpg#0": "empty caption", "0.jpg": "no caption"}
    assert isinstance(captions.items, LazyImages) == (file_format == "array_record")
    validation = load_captions("tfds:tiny", split="validation", data_dir=tmp_path)
    assert as_dict(validation) == {"3.jpg": (30, ["d"])}
    assert validation.name == "tfds:tiny (validation)"
    with pytest.raises(ValueError, match=r"tfds:tiny has no split test; got \['train', 'val'\]"):
        load_captions("tfds:tiny", split="test", data_dir=tmp_path)


def test_a_data_set_that_is_not_prepared_fails_at_once_with_the_command_to_run(tmp_path):
    start = time.monotonic()
    with pytest.raises(FileNotFoundError, match=r"tfds:coco_captions is not prepared.*\n.*downl"):
        load_captions("tfds:coco_captions", data_dir=tmp_path)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("name", ["cifar10", "coco/2017", "ted_hrlr_translate/pt_to_en"])
def test_a_data_set_without_captions_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"tfds:{name} has no captions: it must have"):
        load_captions(f"tfds:{name}", data_dir=tmp_path)
