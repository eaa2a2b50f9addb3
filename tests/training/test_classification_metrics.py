"""Each score against its definition in plain loops."""

import math

import numpy as np
import pytest

from tfx_transformer.training.classification_metrics import (
    BINS,
    classification_scores,
    confusion_matrix,
)

NAMES = list("abcdefg")


@pytest.fixture
def answers():
    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(50, 7))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.where(rng.random(50) < 0.6, probabilities.argmax(axis=1), rng.integers(0, 6, 50))
    return probabilities, np.minimum(labels, 5)


def test_accuracies_and_loss(answers):
    probabilities, labels = answers
    correct = top = 0
    nats, by_class = 0.0, {name: [] for name in NAMES}
    for row, label in zip(probabilities, labels, strict=True):
        order = sorted(range(7), key=lambda c: -row[c])
        correct += order[0] == label
        top += label in order[:5]
        nats -= math.log(row[label])
        by_class[NAMES[label]].append(order[0] == label)
    scores = classification_scores(probabilities, labels, NAMES)
    assert scores["accuracy"] == pytest.approx(100 * correct / 50)
    assert scores["top_5"] == pytest.approx(100 * top / 50) and scores["top_5"] < 100
    assert scores["loss"] == pytest.approx(nats / 50)
    assert scores["images"] == 50
    expected = {name: 100 * sum(hits) / len(hits) for name, hits in by_class.items() if hits}
    assert "g" not in expected and scores["by_class"] == pytest.approx(expected)


def test_calibration_error_is_the_gap_between_confidence_and_accuracy(answers):
    probabilities, labels = answers
    bins = [[] for _ in range(BINS)]
    for row, label in zip(probabilities, labels, strict=True):
        bins[min(int(row.max() * BINS), BINS - 1)].append((row.max(), row.argmax() == label))
    gaps = [abs(sum(p for p, _ in b) - sum(hit for _, hit in b)) / 50 for b in bins if b]
    found = classification_scores(probabilities, labels, NAMES)["calibration_error"]
    assert found == pytest.approx(sum(gaps))


def test_a_confident_and_correct_classifier_is_calibrated():
    scores = classification_scores(np.eye(7)[[1, 3, 5]], [1, 3, 5], NAMES)
    assert scores["calibration_error"] == 0 and scores["accuracy"] == 100


def test_the_rows_of_the_confusion_matrix_are_true_classes():
    counts = confusion_matrix([0, 2, 2, 1], [0, 1, 1, 1], 3)
    assert counts.tolist() == [[1, 0, 0], [0, 1, 2], [0, 0, 0]]


@pytest.mark.parametrize("shape, labels", [((3, 7), [1, 2]), ((2, 6), [1, 2]), ((0, 7), [])])
def test_sizes_must_agree(shape, labels):
    with pytest.raises(ValueError, match=r"probabilities must be \(N, C\) with N="):
        classification_scores(np.zeros(shape), labels, NAMES)
