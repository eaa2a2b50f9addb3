"""A LiteRT file gives the scores of the classifier."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.export import export, inspect, load
from tfx_transformer.pipelines import Classifier


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
def test_the_scores_are_the_same_up_to_8_bits_for_any_batch_size(
    make_classifier, random_images, tmp_path
):
    classifier = make_classifier("vit", dim=64, mlp_dim=96)
    folder = export(classifier, tmp_path / "small", "A card.", "litert")
    runner = tf.lite.Interpreter(str(folder / "model.tflite")).get_signature_runner()
    for count in (3, 1):
        images = random_images(classifier, count)
        expected = tf.nn.softmax(classifier.logits(255 * images)).numpy()
        np.testing.assert_allclose(runner(image=images)["scores"], expected, atol=0.05)
    weights = sum(weight.numpy().nbytes for weight in classifier.model.weights)
    assert (folder / "model.tflite").stat().st_size < 0.6 * weights


def test_a_loaded_file_classifies_images_as_the_classifier_does(make_classifier, items, tmp_path):
    classifier = make_classifier("vit", dim=64, mlp_dim=96)
    loaded = load(export(classifier, tmp_path / "small", format="litert"), "classifier")
    for expected, found in zip(
        classifier(items["classifier"]), loaded(items["classifier"]), strict=True
    ):
        assert found.keys() == expected.keys()
        assert all(abs(found[name] - score) < 0.05 for name, score in expected.items())
    shown = inspect(tmp_path / "small").splitlines()
    size = classifier.model.image_size
    assert shown == [
        "serving_default",
        f"  in  image: float32 [?, {size}, {size}, 3]",
        f"  out scores: float32 [?, {len(classifier.class_names)}]",
    ]


@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize("format", ["litert", "onnx"])
def test_the_program_of_the_card_gives_the_scores_of_the_classifier(
    format, make_classifier, items, tmp_path, monkeypatch, capsys
):
    if format == "onnx":
        pytest.importorskip("tf2onnx")
        pytest.importorskip("onnxruntime")
    parts = make_classifier("vit", dim=64, mlp_dim=96)
    for resize in ("crop", "pad", "squash"):
        classifier = Classifier(
            parts.model, parts.class_names, top_k=2, crop_ratio=0.6, resize=resize
        )
        folder = export(classifier, tmp_path / resize, "A card.", format)
        (folder / "photo.jpg").write_bytes(items["classifier"][2])
        card = (folder / "README.md").read_text("utf-8")
        program = card.split("```python\n")[1].split("```")[0]
        assert "tfx_transformer" not in program
        monkeypatch.chdir(folder)
        capsys.readouterr()
        exec(program, {})
        shown = dict(line.split() for line in capsys.readouterr().out.splitlines())
        expected = classifier(items["classifier"][2])
        assert list(shown) == list(expected)
        assert [float(x) for x in shown.values()] == pytest.approx([*expected.values()], abs=0.05)


def test_the_folder_contains_all_files(make_classifier, tmp_path):
    classifier = make_classifier("mlp_mixer")
    folder = export(classifier, tmp_path / "small", "A card.", "litert")
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md",
        "export.json",
        "labels.txt",
        "model.tflite",
    ]
    assert (folder / "labels.txt").read_text("utf-8").split() == classifier.class_names
    assert (folder / "README.md").read_text().startswith("A card.\n")


def test_an_op_that_litert_does_not_have_is_named_and_nothing_is_written(make_classifier, tmp_path):
    with pytest.raises(ValueError, match="LiteRT has no op for Roll of this model"):
        export(make_classifier("swin"), tmp_path / "small", format="litert")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", ["litert", "onnx"])
@pytest.mark.parametrize(
    "options, message",
    [
        ({"jit_compile": True}, "jit_compile must be False"),
        ({"class_names": ["a\nb", "c", "d", "e", "f"]}, "class_names must not contain line breaks"),
    ],
    ids=["jit_compile", "line break"],
)
def test_unsupported_classifiers_are_refused(format, options, message, make_classifier, tmp_path):
    if format == "onnx":
        pytest.importorskip("tf2onnx")
    with pytest.raises(ValueError, match=message):
        export(make_classifier("mlp_mixer", **options), tmp_path / "small", format=format)
    assert not list(tmp_path.iterdir())
