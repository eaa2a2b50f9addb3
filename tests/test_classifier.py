"""Bytes in, names out: one bad picture does not spoil the others."""

from io import BytesIO

import keras
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfx_transformer.classifier import Classifier
from tfx_transformer.models import create_model

NAMES = ["Katze", "개", "犬", "dog"]


@pytest.fixture(scope="module")
def classifier():
    keras.utils.set_random_seed(1)
    model = create_model("vit", "tiny", num_classes=4)
    model.build((None, 16, 16, 3))
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.5, seed=len(weight.path)))
    return Classifier(model, NAMES, crop_ratio=0.8, top_k=3)


def png(height, width, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), "uint8")
    return tf.io.encode_png(pixels).numpy()


def test_the_likeliest_classes_are_named_in_order(classifier):
    found = classifier.classify(tf.constant([png(31, 20), png(16, 47, 1)]))
    images, _ = classifier.read(tf.constant([png(31, 20), png(16, 47, 1)]))
    logits = np.asarray(classifier.model(images / 127.5 - 1), "float64")
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for row in range(2):
        order = np.argsort(-shares[row])[:3]
        assert [label.decode() for label in found["labels"][row].numpy()] == [
            NAMES[i] for i in order
        ]
        np.testing.assert_allclose(found["scores"][row], shares[row][order], atol=1e-5)
        assert found["label"][row] == found["labels"][row, 0]
        assert found["score"][row] == found["scores"][row, 0]


def test_a_bad_picture_has_no_label_and_the_others_keep_theirs(classifier):
    good = [png(20, 30), png(16, 16, 1)]
    files = [b"", good[0], good[0][:50], b"GIF89a", good[1]]
    found = classifier.classify(tf.constant(files))
    assert found["is_readable"].numpy().tolist() == [False, True, False, False, True]
    alone = classifier.classify(tf.constant(good))
    assert found["labels"].numpy()[[1, 4]].tolist() == alone["labels"].numpy().tolist()
    np.testing.assert_allclose(found["scores"].numpy()[[1, 4]], alone["scores"], atol=1e-6)
    assert found["label"].numpy()[[0, 2, 3]].tolist() == [b""] * 3
    assert found["score"].numpy()[[0, 2, 3]].tolist() == [0] * 3


def test_nothing_and_nothing_readable_are_answered(classifier):
    assert classifier.classify(tf.constant([], tf.string))["label"].shape == (0,)
    assert classifier.classify(tf.constant([b"?", b"!"]))["label"].numpy().tolist() == [b"", b""]


@pytest.mark.parametrize("encode", ["png", "jpeg", "gif", "bmp"])
def test_each_format_is_read(classifier, encode):
    file = BytesIO()
    Image.new("RGB", (24, 24), (200, 100, 50)).save(file, encode)
    images, is_readable = classifier.read(tf.constant([file.getvalue()]))
    assert is_readable.numpy().tolist() == [True]
    np.testing.assert_allclose(images[0, 8, 8], [200, 100, 50], atol=4)


def test_pixels_are_classified_as_their_file(classifier):
    file = png(16, 16)
    images, _ = classifier.read(tf.constant([file]))
    found, other = classifier.classify(tf.constant([file])), classifier.predict(images / 255)
    np.testing.assert_allclose(found["scores"], other["scores"], atol=1e-5)


def test_there_is_a_name_for_each_class(classifier):
    with pytest.raises(ValueError, match="class_names must be 4, as the model's; got 2"):
        Classifier(classifier.model, ["a", "b"])
