"""Strings in, names out, as the model says of the ids."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, START, train_tokenizer
from tfx_transformer.data.wordpiece import WordPiece
from tfx_transformer.export import (
    export_text_classifier,
    inspect_export,
    load_generator,
    load_text_classifier,
)
from tfx_transformer.models import create_model
from tfx_transformer.text_classifier import TextClassifier

NAMES = ["gut", "나쁨", "neither", "both"]
TEXTS = ["red cat", "", "old big dog", "blue dog and red cat " * 9]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "cat", "dog", "big", "##s", "blue"]


def make(kind, **options):
    keras.utils.set_random_seed(1)
    if kind == "wordpiece":
        tokenizer = WordPiece(WORDS)
    else:
        texts = ["red cat", "old big dog", "blue dog and red cat"] * 20
        tokenizer = train_tokenizer(texts, 30, byte_fallback=False)
    size = tokenizer.vocab_size
    model = create_model("bert", "tiny", vocab_size=size, depth=1, head="classify", num_classes=4)
    model.build((None, None))
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, stddev=0.5, seed=len(weight.path)))
    return TextClassifier(model, tokenizer, NAMES, **{"max_length": 12, "top_k": 3} | options)


@pytest.fixture(scope="module")
def classifiers():
    return {kind: make(kind) for kind in ("sentencepiece", "wordpiece")}


@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_the_likeliest_classes_are_named_in_order(classifiers, kind):
    classifier = classifiers[kind]
    found = classifier.classify(tf.constant(TEXTS))
    start, end = (START, END) if classifier.tokenizer.start_id == START else (2, 3)
    for i, text in enumerate(TEXTS):
        ids = [start, *classifier.tokenizer.encode_list([text])[0][:10], end]
        logits = np.asarray(classifier.model({"tokens": np.array([ids])}), "float64")[0]
        shares = np.exp(logits) / np.exp(logits).sum()
        order = np.argsort(-shares)[:3]
        labels = [label.decode() for label in found["labels"][i].numpy()]
        assert labels == [NAMES[place] for place in order]
        np.testing.assert_allclose(found["scores"][i], shares[order], rtol=1e-4)
    assert found["label"].numpy().tolist() == found["labels"][:, 0].numpy().tolist()
    assert found["score"].numpy().tolist() == found["scores"][:, 0].numpy().tolist()


SERVED = """
import json, sys
import tensorflow as tf
import tensorflow_text
texts = tf.constant(json.loads(sys.argv[1]))
for folder in sys.argv[2:]:
    model = tf.saved_model.load(folder)
    assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
    out = model.signatures["serving_default"](texts)
    ids = model.signatures["ids"](tf.constant([[1, 5, 2], [1, 2, 0]]))
    print(json.dumps({"label": [label.decode() for label in out["label"].numpy()],
                      "score": out["score"].numpy().tolist(),
                      "labels": out["labels"].shape.as_list(),
                      "ids": ids["labels"].shape.as_list()}))
"""
OPS = {"sentencepiece": "SentencepieceOp, ", "wordpiece": "FastBertNormalize, FastWordpiece"}


def test_the_exports_classify_in_a_process_without_this_package(classifiers, tmp_path):
    folders = [
        export_text_classifier(classifier, tmp_path / kind, "a card")
        for kind, classifier in classifiers.items()
    ]
    command = [sys.executable, "-c", SERVED, json.dumps(TEXTS), *map(str, folders)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stderr[-2000:]
    lines = result.stdout.splitlines()
    for (kind, classifier), folder, line in zip(classifiers.items(), folders, lines, strict=True):
        served, own = json.loads(line), classifier.classify(tf.constant(TEXTS))
        assert served["label"] == [label.decode() for label in own["label"].numpy()]
        assert served["score"] == pytest.approx(own["score"].numpy().tolist(), abs=1e-5)
        assert (served["labels"], served["ids"]) == ([4, 3], [2, 3])
        assert (folder / "README.md").read_text() == "a card"
        assert f"needs tensorflow-text: {OPS[kind]}" in inspect_export(folder)
    found = load_text_classifier(folder)(TEXTS)
    assert found["label"].numpy().tolist() == own["label"].numpy().tolist()
    with pytest.raises(ValueError, match="that continues texts; this one classifies texts"):
        load_generator(folder)


def test_sizes_must_fit_the_model():
    with pytest.raises(ValueError, match=r"max_length must lie in 3 … 32; got max_length=33"):
        make("wordpiece", max_length=33)
    classifier = make("wordpiece", max_length=None, top_k=9)
    assert (classifier.max_length, classifier.top_k) == (32, 4)
    with pytest.raises(ValueError, match="class_names must be 4, as the model's; got 2"):
        TextClassifier(classifier.model, classifier.tokenizer, NAMES[:2])
