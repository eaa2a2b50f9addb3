"""Classifiers as files of LiteRT and ONNX give the scores of the model that they were made of."""

import importlib.util
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.classifier import Classifier
from tfx_transformer.models import create_model
from tfx_transformer.portable import export_portable

NAMES = ["ant", "bär", "cat", "dog", "elk"]


@pytest.fixture
def make(randomise):
    def make(name, variant, **options):
        model = create_model(name, variant, num_classes=len(NAMES), **options)
        images = np.zeros((1, model.image_size, model.image_size, 3), "float32")
        return Classifier(randomise(model, images), NAMES, normalisation="half")

    return make


def scores_of(classifier, images):
    return tf.nn.softmax(classifier.logits(255 * images)).numpy()


def draw_images(classifier, count):
    size = classifier.model.image_size
    return np.random.default_rng(3).random((count, size, size, 3), "float32")


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_litert_gives_the_scores_up_to_8_bits_for_any_number_of_images(make, tmp_path):
    classifier = make("vit", "tiny", dim=64, mlp_dim=96)
    folder = export_portable(classifier, tmp_path / "small", "litert", "A card.")
    runner = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner()
    for count in (3, 1):
        images = draw_images(classifier, count)
        scores = runner(image=images)["scores"]
        np.testing.assert_allclose(scores, scores_of(classifier, images), atol=0.05)
    weights = sum(weight.numpy().nbytes for weight in classifier.model.weights)
    assert (folder / "model.tflite").stat().st_size < 0.6 * weights


@pytest.mark.parametrize("name", ["vit", "swin", "mlp_mixer", "attention_cnn"])
def test_onnx_gives_the_scores(name, make, tmp_path):
    for library in ("tf2onnx", "onnxruntime"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    import onnxruntime

    classifier = make(name, "tiny")
    folder = export_portable(classifier, tmp_path / "small", "onnx")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    for count in (3, 1):
        images = draw_images(classifier, count)
        (scores,) = session.run(["scores"], {"image": images})
        np.testing.assert_allclose(scores, scores_of(classifier, images), atol=1e-5)


def test_the_classes_and_the_card_stand_beside_the_model(make, tmp_path):
    folder = export_portable(make("mlp_mixer", "tiny"), tmp_path / "small", "litert", "A card.")
    assert (folder / "labels.txt").read_text("utf-8").split() == NAMES
    assert (folder / "README.md").read_text() == "A card."
    with pytest.raises(ValueError, match="small is there already"):
        export_portable(make("mlp_mixer", "tiny"), folder, "litert")


def test_an_op_that_litert_has_not_is_named_and_nothing_is_written(make, tmp_path):
    with pytest.raises(ValueError, match="LiteRT has no op for Roll of this model"):
        export_portable(make("swin", "tiny"), tmp_path / "small", "litert")
    assert not list(tmp_path.iterdir())


def test_without_tf2onnx_the_error_says_what_to_install(make, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r'pip install "tfx-transformer\[onnx\]"'):
        export_portable(make("mlp_mixer", "tiny"), tmp_path / "small", "onnx")
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_refused(make, tmp_path):
    with pytest.raises(ValueError, match="unknown format 'coreml'; known: litert, onnx"):
        export_portable(make("mlp_mixer", "tiny"), tmp_path / "small", "coreml")


def test_names_of_several_lines_are_refused(tmp_path):
    model = create_model("mlp_mixer", "tiny", num_classes=2)
    model.build((None, model.image_size, model.image_size, 3))
    with pytest.raises(ValueError, match=r"class names must be of one line"):
        export_portable(Classifier(model, ["a\nb", "c"]), tmp_path / "small", "litert")
