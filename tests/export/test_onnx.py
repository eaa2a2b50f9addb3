"""An ONNX file gives the scores of the classifier."""

import sys

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.export import export


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
