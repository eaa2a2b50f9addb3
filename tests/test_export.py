"""The SavedModel works in a fresh process that never imports this package."""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.captioner import Captioner
from tfx_transformer.classifier import Classifier
from tfx_transformer.export import (
    export_captioner,
    export_classifier,
    export_translator,
    inspect_export,
    load_captioner,
    load_classifier,
    load_export,
)
from tfx_transformer.models import create_model
from tfx_transformer.translator import Translator

SERVED = """
import json, sys
import tensorflow as tf
if sys.argv[2] == "text":
    import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
serve = model.signatures["serving_default"]
if sys.argv[2] == "text":
    out = serve(tf.constant(json.loads(sys.argv[3])))
    alignment = out["alignment"].numpy().sum(axis=-1)[0]
    print(json.dumps({"text": [t.decode() for t in out["text"].numpy()],
                      "n_best": out["n_best"].shape.as_list(), "rows": float(alignment[0])}))
else:
    print(json.dumps(serve(tf.constant(json.loads(sys.argv[3])))["tokens"].numpy().tolist()))
"""


def serve(folder, kind, value, cwd):
    result = subprocess.run(
        [sys.executable, "-c", SERVED, str(folder), kind, json.dumps(value)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout)


def test_the_export_translates_in_a_process_without_this_package(translator, tmp_path):
    folder = export_translator(translator, tmp_path / "export", "a card")
    texts = ["red cat", "", "old big dog", "blue " * 50]
    served = serve(folder, "text", texts, tmp_path)
    assert served["text"] == translator(texts) and served["text"][1] == ""
    assert served["n_best"] == [4, 2] and served["rows"] == pytest.approx(1, abs=1e-5)
    assert (folder / "README.md").read_text() == "a card"
    told = inspect_export(folder)
    assert "needs tensorflow-text: Sentencepiece" in told
    for line in ("ids\n", "limited\n", "serving_default\n", "  in  max_length: int32 []"):
        assert line in told
    with pytest.raises(ValueError, match="is there already"):
        export_translator(translator, folder)


MANY = """
import json, sys
import tensorflow as tf
import tensorflow_text
told = {}
for folder in sys.argv[2:]:
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    out = serve(tf.constant(json.loads(sys.argv[1])))
    told[folder] = [[text.decode() for text in out["text"].numpy()],
                    out["alignment"].numpy().sum(axis=-1)[0, 0].tolist()]
assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
print(json.dumps(told))
"""
RECURRENT = {
    "one vector": {"reverse_source": True},
    "dot": {"attention": "dot", "readout": "combined"},
    "bilinear": {"attention": "bilinear", "readout": "combined", "feed": "features"},
    "additive": {"attention": "additive", "readout": "deep", "bidirectional": True},
}


def test_recurrent_translators_are_served_in_a_process_without_this_package(translator, tmp_path):
    texts, own = ["red cat", "", "blue dog and old cat"], {}
    for name, options in RECURRENT.items():
        tokenizer = translator.source_tokenizer
        model = create_model(
            "rnn_seq2seq", "tiny", vocab_size=tokenizer.vocab_size, cell="gru", **options
        )
        model.build({"source": (None, None), "target": (None, None)})
        rng = np.random.default_rng(1)
        for weight in model.trainable_weights:
            weight.assign(rng.normal(size=weight.shape))
        one = Translator(model, tokenizer, tokenizer, {"kind": "beam", "width": 2}, max_length=9)
        own[str(export_translator(one, tmp_path / name))] = one(texts)
    command = [sys.executable, "-c", MANY, json.dumps(texts), *own]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    for folder, (said, looked) in json.loads(result.stdout).items():
        assert said == own[folder] and said[0] and not said[1]
        assert looked == pytest.approx(0 if "vector" in folder else 1, abs=1e-5)
    assert len({said[0] for said in own.values()}) == len(RECURRENT)


def test_an_export_of_ids_needs_tensorflow_alone(translator, tmp_path):
    folder = export_translator(translator, tmp_path / "ids", ids_only=True)
    ids = [[*translator.source_tokenizer.encode_list(["red cat"])[0], 2]]
    tokens = serve(folder, "ids", ids, tmp_path)
    assert translator.target_tokenizer.decode_list(tokens[0][:1]) == translator(["red cat"])
    assert "needs tensorflow-text: no" in inspect_export(folder)


def test_what_is_no_saved_model_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no SavedModel: there is no"):
        inspect_export(tmp_path)


CLASSIFIED = """
import json, sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
files = [open(path, "rb").read() for path in sys.argv[2:]]
out = model.signatures["serving_default"](tf.constant(files))
images = model.signatures["images"](tf.fill([2, 16, 16, 3], 0.5))
print(json.dumps({"label": [x.decode() for x in out["label"].numpy()],
                  "score": out["score"].numpy().tolist(),
                  "is_readable": out["is_readable"].numpy().tolist(),
                  "labels": out["labels"].shape.as_list(), "images": len(images["label"])}))
"""


@pytest.fixture
def classifier():
    model = create_model("vit", "tiny", num_classes=4)
    model.build((None, 16, 16, 3))
    return Classifier(model, ["Katze", "개", "犬", "dog"], top_k=3)


def test_the_export_classifies_files_in_a_process_with_tensorflow_alone(classifier, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 3), "uint8")
    files = {"a.png": tf.io.encode_png(pixels), "b.jpg": tf.io.encode_jpeg(pixels[:20])}
    contents = [content.numpy() for content in files.values()] + [b"junk"]
    paths = [tmp_path / name for name in (*files, "c.gif")]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    folder = export_classifier(classifier, tmp_path / "export", "a card")
    command = [sys.executable, "-c", CLASSIFIED, str(folder), *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stderr[-2000:]
    served, own = json.loads(result.stdout), classifier.classify(tf.constant(contents))
    assert served["label"] == [label.decode() for label in own["label"].numpy()]
    assert served["score"] == pytest.approx(own["score"].numpy().tolist(), abs=1e-5)
    assert served["is_readable"] == [True, True, False] and served["label"][2] == ""
    assert served["labels"] == [3, 3] and served["images"] == 2
    assert (folder / "README.md").read_text() == "a card"
    assert "needs tensorflow-text: no" in inspect_export(folder)
    found = load_classifier(folder)(contents)
    assert found["label"].numpy().tolist() == own["label"].numpy().tolist()
    with pytest.raises(ValueError, match="export that translates.*this one classifies pictures"):
        load_export(folder)


def test_a_translator_does_not_classify_or_describe(translator, tmp_path):
    folder = export_translator(translator, tmp_path / "ids", ids_only=True)
    for load, does in ((load_classifier, "classifies"), (load_captioner, "describes")):
        with pytest.raises(ValueError, match=f"export that {does}.*takes and gives token ids"):
            load(folder)


CAPTIONED = """
import json, sys
import tensorflow as tf
import tensorflow_text
model = tf.saved_model.load(sys.argv[1])
assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
files = [open(path, "rb").read() for path in sys.argv[2:]]
serve = model.signatures["serving_default"]
out, alone = serve(tf.constant(files)), serve(tf.constant(files[:1]))
images = model.signatures["images"](tf.fill([2, 32, 32, 3], 0.5))
print(json.dumps({"text": [x.decode() for x in out["text"].numpy()],
                  "score": out["score"].numpy().tolist(),
                  "is_readable": out["is_readable"].numpy().tolist(),
                  "weights": out["weights"].numpy().sum(axis=(2, 3)).tolist(),
                  "n_best": out["n_best"].shape.as_list(), "images": len(images["text"]),
                  "alone": alone["text"][0].numpy().decode()}))
"""


def test_the_export_describes_files_in_a_process_without_this_package(captioner, tmp_path):
    """One picture that cannot be read does not spoil the others."""
    rng = np.random.default_rng(0)
    colours = [rng.integers(0, 256, (3, 4, 3), "uint8").repeat(9, 0).repeat(7, 1) for _ in "ab"]
    contents = [
        tf.io.encode_png(colours[0]).numpy(),
        b"junk",
        tf.io.encode_jpeg(colours[1]).numpy(),
    ]
    paths = [tmp_path / name for name in ("a.png", "b.gif", "c.jpg")]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    folder = export_captioner(captioner, tmp_path / "export", "a card")
    command = [sys.executable, "-c", CAPTIONED, str(folder), *map(str, paths)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stderr[-2000:]
    served, own = json.loads(result.stdout), captioner.caption(tf.constant(contents))
    assert served["text"] == [text.decode() for text in own["text"].numpy()]
    assert served["text"][0] == served["alone"] and len(set(served["text"])) == 3
    assert served["is_readable"] == [True, False, True] and served["text"][1] == ""
    assert served["score"] == pytest.approx(own["score"].numpy().tolist(), abs=1e-4)
    np.testing.assert_allclose(served["weights"], own["tokens"].numpy() != 0, atol=1e-5)
    assert served["n_best"] == [3, 2] and served["images"] == 2
    assert (folder / "README.md").read_text() == "a card"
    told = inspect_export(folder)
    assert "serving_default\n  in  image: string [?]" in told and "images\n" in told
    assert "needs tensorflow-text: Sentencepiece" in told
    found = load_captioner(folder)(contents)
    assert found["text"].numpy().tolist() == own["text"].numpy().tolist()
    for load, does in ((load_export, "translates"), (load_classifier, "classifies")):
        with pytest.raises(ValueError, match=f"must be an export that {does}.*one describes"):
            load(folder)
    with pytest.raises(ValueError, match="is there already"):
        export_captioner(captioner, folder)


DESCRIBED = """
import json, sys
import tensorflow as tf
import tensorflow_text
told, files = {}, [open(sys.argv[1], "rb").read()]
for folder in sys.argv[2:]:
    out = tf.saved_model.load(folder).signatures["serving_default"](tf.constant(files))
    told[folder] = out["text"].numpy()[0].decode(), out["weights"].numpy().max(axis=(2, 3)).tolist()
assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
print(json.dumps(told))
"""
DESCRIBING = {
    "hard": {"hard": True},
    "one_look": {"attention": None},
    "vit": {
        "encoder": {"kind": "vit", "variant": "tiny", "options": {"image_size": 32}},
        "readout": "deep",
    },
}


def test_every_kind_of_captioner_is_served_in_a_process_without_this_package(captioner, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (40, 36, 3), "uint8")
    (tmp_path / "a.png").write_bytes(tf.io.encode_png(picture).numpy())
    tokenizer, own = captioner.tokenizer, {}
    for name, options in DESCRIBING.items():
        model = create_model("show_attend_tell", "tiny", vocab_size=tokenizer.vocab_size, **options)
        model.build({"image": (None, 32, 32, 3), "target": (None, None)})
        rng = np.random.default_rng(1)
        for weight in model.trainable_weights:
            weight.assign(rng.normal(size=weight.shape))
        model.save(tmp_path / "model.keras")
        model = keras.saving.load_model(tmp_path / "model.keras")
        one = Captioner(model, tokenizer, "greedy", max_length=9)
        found = one.caption(tf.constant([(tmp_path / "a.png").read_bytes()]))
        folder = export_captioner(one, tmp_path / name)
        own[str(folder)] = found["text"][0].numpy().decode(), found["weights"].numpy()
    command = [sys.executable, "-c", DESCRIBED, str(tmp_path / "a.png"), *own]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    for folder, (text, most) in json.loads(result.stdout).items():
        said, weights = own[folder]
        assert text == said and said
        np.testing.assert_allclose(most, weights.max(axis=(2, 3)), atol=1e-5)
        first = {"hard": 1.0, "one_look": 0.0}.get(Path(folder).name)
        assert most[0][0] == first if first is not None else 0 < most[0][0] < 1


def test_an_exported_captioner_that_draws_draws_anew_at_each_call(captioner, tmp_path):
    drawing = Captioner(captioner.model, captioner.tokenizer, "sample", max_length=9)
    describe = load_captioner(export_captioner(drawing, tmp_path / "export"))
    files = [tf.io.encode_png(np.full((9, 9, 3), grey, "uint8")).numpy() for grey in (0, 90, 200)]
    first, second = (describe(files)["tokens"].numpy() for _ in range(2))
    assert (first != second).any()
