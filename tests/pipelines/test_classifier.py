"""Image files in, class names out, with an untrained model."""

from io import BytesIO

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Classifier
from tfx_transformer.visualization.rollout import token_rollout


def png(height, width, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), "uint8")
    return tf.io.encode_png(pixels).numpy()


def test_the_most_likely_classes_come_first(classifier):
    files = tf.constant([png(31, 20), png(16, 47, 1)])
    outputs = classifier.predict(files)
    images, _ = classifier.read(files)
    logits = np.asarray(classifier.model(images / 127.5 - 1), "float64")
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for row in range(2):
        order = np.argsort(-probabilities[row])[:3]
        labels = [label.decode() for label in outputs["labels"][row].numpy()]
        assert labels == [classifier.class_names[i] for i in order]
        np.testing.assert_allclose(outputs["scores"][row], probabilities[row][order], atol=1e-5)
        assert outputs["label"][row] == outputs["labels"][row, 0]
        assert outputs["score"][row] == outputs["scores"][row, 0]


def test_an_unreadable_image_has_no_label_and_the_others_keep_theirs(classifier):
    good = [png(20, 30), png(16, 16, 1)]
    files = [b"", good[0], good[0][:50], b"GIF89a", good[1]]
    outputs = classifier.predict(tf.constant(files))
    assert outputs["is_readable"].numpy().tolist() == [False, True, False, False, True]
    alone = classifier.predict(tf.constant(good))
    assert outputs["labels"].numpy()[[1, 4]].tolist() == alone["labels"].numpy().tolist()
    np.testing.assert_allclose(outputs["scores"].numpy()[[1, 4]], alone["scores"], atol=1e-6)
    assert outputs["label"].numpy()[[0, 2, 3]].tolist() == [b""] * 3
    assert outputs["score"].numpy()[[0, 2, 3]].tolist() == [0] * 3


def test_a_batch_may_be_empty_or_without_a_readable_image(classifier):
    assert classifier.predict(tf.constant([], tf.string))["label"].shape == (0,)
    assert classifier.predict(tf.constant([b"?", b"!"]))["label"].numpy().tolist() == [b"", b""]


@pytest.mark.parametrize("encode", ["png", "jpeg", "gif", "bmp"])
def test_every_image_format_is_read(classifier, encode):
    file = BytesIO()
    Image.new("RGB", (24, 24), (200, 100, 50)).save(file, encode)
    images, is_readable = classifier.read(tf.constant([file.getvalue()]))
    assert is_readable.numpy().tolist() == [True]
    np.testing.assert_allclose(images[0, 8, 8], [200, 100, 50], atol=4)


def test_pixels_have_the_classes_of_their_file(classifier):
    file = png(16, 16)
    images, _ = classifier.read(tf.constant([file]))
    expected = classifier.predict(tf.constant([file]))
    outputs = classifier.predict_pixels(images / 255)
    assert outputs["labels"].numpy().tolist() == expected["labels"].numpy().tolist()
    np.testing.assert_allclose(outputs["scores"], expected["scores"], atol=1e-5)
    every = classifier.predict_scores(images / 255)["scores"].numpy()
    np.testing.assert_allclose(np.sort(every)[:, ::-1][:, :3], expected["scores"], atol=1e-5)


TRANSFORMERS = {
    "class token": ("vit", {}),
    "two class tokens": ("vit", {"num_tokens": 2}),
    "mean": ("vit", {"num_tokens": 0}),
    "convolutions": ("vit", {"num_tokens": 0, "patch_size": None, "pool": "sequence"}),
    "pixels": ("pixel_transformer", {}),
}


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_the_rollout_is_that_of_its_definition(randomize, name):
    model, options = TRANSFORMERS[name]
    model = randomize(create_model(model, "test", num_classes=2, **options))
    classifier = Classifier(model, ["cat", "dog"])
    files = tf.constant([png(31, 20), b"not an image", png(16, 47, 1)])
    outputs, expected = classifier.explain(files), classifier.predict(files)
    rollout = outputs.pop("rollout").numpy()
    assert set(outputs) == set(expected)
    np.testing.assert_allclose(outputs["scores"], expected["scores"], atol=1e-5)
    images, _ = classifier.read(files)
    maps = model.attention_maps(images / 127.5 - 1)
    grid = rollout.shape[1:]
    for row in (0, 2):
        weights = [np.asarray(layer)[row] for layer in maps.values()]
        expected = token_rollout(
            weights, grid, options.get("num_tokens", int(name == "class token"))
        )
        np.testing.assert_allclose(rollout[row], expected, atol=1e-5)
        assert np.ptp(expected) > 0.01 / expected.size
    assert not rollout[1].any() and "explain" in classifier.signatures()


@pytest.mark.parametrize("name", ["attention_cnn", "mlp_mixer", "swin"])
def test_a_model_without_attention_between_all_patches_has_no_rollout(name):
    model = create_model(name, "test", num_classes=2)
    assert set(Classifier(model, ["cat", "dog"]).signatures()) == {"serving_default", "images"}


def test_a_result_may_have_a_rollout(classifier):
    outputs = classifier.explain(tf.constant([png(31, 20)]))
    result = classifier.result.unpack({name: x.numpy() for name, x in outputs.items()}, 0)
    assert result.rollout.shape == (4, 4) and len(result.classes) == 3
    assert classifier.results([png(31, 20)])[0].rollout is None


def test_there_must_be_a_name_for_each_class(classifier):
    with pytest.raises(ValueError, match="class_names must have 4 names, .*; got 2"):
        Classifier(classifier.model, ["a", "b"])


def test_an_image_of_too_many_pixels_is_unreadable_and_the_options_are_exported(classifier):
    limited = Classifier(classifier.model, classifier.class_names, resize="pad", max_pixels=400)
    outputs = limited.predict(tf.constant([png(20, 20), png(20, 21)]))
    assert outputs["is_readable"].numpy().tolist() == [True, False]
    assert outputs["label"].numpy()[1] == b""
    options = limited.options()
    assert (options["resize"], options["max_pixels"]) == ("pad", 400)


def test_a_rotated_photo_has_the_classes_of_the_upright_one(classifier):
    pixels = np.random.default_rng(0).integers(0, 256, (31, 20, 3), "uint8")
    exif = Image.Exif()
    exif[0x0112] = 6
    upright, rotated = BytesIO(), BytesIO()
    Image.fromarray(np.rot90(pixels, -1)).save(upright, "png")
    Image.fromarray(pixels).save(rotated, "png", exif=exif)
    first, second = classifier([upright.getvalue(), rotated.getvalue()])
    assert first == pytest.approx(second, abs=1e-5)
