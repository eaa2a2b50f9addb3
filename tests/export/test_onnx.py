"""An ONNX file gives the scores of the classifier."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.export import export, inspect, load


@pytest.mark.parametrize("name", ["vit", "swin", "mlp_mixer", "attention_cnn"])
def test_the_scores_are_the_same_for_any_batch_size(name, make_classifier, random_images, tmp_path):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    classifier = make_classifier(name)
    folder = export(classifier, tmp_path / "small", format="onnx")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    for count in (3, 1):
        images = random_images(classifier, count)
        expected = tf.nn.softmax(classifier.logits(255 * images)).numpy()
        (scores,) = session.run(["scores"], {"image": images})
        np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert (folder / "labels.txt").read_text("utf-8").split() == classifier.class_names


def test_without_tf2onnx_the_error_says_what_to_install(make_classifier, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(
        ImportError, match=r'package tf2onnx: pip install tf2onnx, or .* "\.\[onnx\]"'
    ):
        export(make_classifier("mlp_mixer"), tmp_path / "small", format="onnx")
    assert not list(tmp_path.iterdir())


def test_a_loaded_file_classifies_images_as_the_classifier_does(make_classifier, items, tmp_path):
    pytest.importorskip("tf2onnx")
    pytest.importorskip("onnxruntime")
    classifier = make_classifier("vit")
    loaded = load(export(classifier, tmp_path / "small", format="onnx"), "classifier")
    for expected, found in zip(
        classifier(items["classifier"]), loaded(items["classifier"]), strict=True
    ):
        assert found == pytest.approx(expected, abs=1e-4)
    assert "in  image: float [?, " in inspect(tmp_path / "small")


def test_without_onnxruntime_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    info = {"kind": "classifier", "format": "onnx", "options": {}}
    (tmp_path / "export.json").write_text(json.dumps(info))
    for function in (load, inspect):
        with pytest.raises(ImportError, match="an ONNX file, needs the package onnxruntime: pip"):
            function(tmp_path)
