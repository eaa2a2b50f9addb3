"""Strings in, class names out, with an untrained model."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, START
from tfx_transformer.pipelines import TextClassifier

TEXTS = ["red cat", "", "old big dog", "blue dog and red cat " * 9]


@pytest.mark.parametrize("fixture", ["text_classifier", "wordpiece_classifier"])
def test_the_most_likely_classes_come_first(fixture, request):
    classifier = request.getfixturevalue(fixture)
    outputs = classifier.predict(tf.constant(TEXTS))
    start, end = (2, 3) if fixture == "wordpiece_classifier" else (START, END)
    for i, text in enumerate(TEXTS):
        ids = [start, *classifier.tokenizer.encode_list([text])[0][:10], end]
        logits = np.asarray(classifier.model({"tokens": np.array([ids])}), "float64")[0]
        probabilities = np.exp(logits) / np.exp(logits).sum()
        order = np.argsort(-probabilities)[:3]
        labels = [label.decode() for label in outputs["labels"][i].numpy()]
        assert labels == [classifier.class_names[index] for index in order]
        np.testing.assert_allclose(outputs["scores"][i], probabilities[order], rtol=1e-4)
    assert outputs["label"].numpy().tolist() == outputs["labels"][:, 0].numpy().tolist()
    assert outputs["score"].numpy().tolist() == outputs["scores"][:, 0].numpy().tolist()


def test_token_ids_have_the_classes_of_their_text(text_classifier):
    outputs = text_classifier.predict_ids(text_classifier.read(tf.constant(TEXTS)))
    expected = text_classifier.predict(tf.constant(TEXTS))
    assert outputs["labels"].numpy().tolist() == expected["labels"].numpy().tolist()


@pytest.mark.parametrize("fixture", ["text_classifier", "wordpiece_classifier"])
def test_ids_outside_of_the_vocabulary_are_unknown_tokens(fixture, request):
    classifier = request.getfixturevalue(fixture)
    unk, size = classifier.tokenizer.unk_id, classifier.tokenizer.vocab_size
    rows = [[1, 5, other, 2] for other in (-1, size, 2**31 - 1, -(2**31), unk)]
    scores = classifier.predict_ids(tf.constant(rows, tf.int32))["scores"].numpy()
    assert unk != 0 and np.isfinite(scores).all()
    np.testing.assert_allclose(scores, np.broadcast_to(scores[-1], scores.shape), rtol=1e-5)


def test_sizes_must_fit_the_model(wordpiece_classifier):
    parts = wordpiece_classifier.model, wordpiece_classifier.tokenizer
    names = wordpiece_classifier.class_names
    with pytest.raises(ValueError, match=r"max_length must lie in 3 … 32; got max_length=33"):
        TextClassifier(*parts, names, max_length=33)
    classifier = TextClassifier(*parts, names, top_k=9)
    assert (classifier.max_length, classifier.top_k) == (32, 4)
    with pytest.raises(ValueError, match="class_names must have 4 names, .*; got 2"):
        TextClassifier(*parts, names[:2])
