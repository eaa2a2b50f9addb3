"""Evaluation that the classifiers of images and of texts share."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfx_transformer.train.tasks.base import Evaluation, Evaluator, timed
from tfx_transformer.training.classification_metrics import classification_scores, confusion_matrix


def class_loss(label_smoothing: float) -> keras.losses.Loss:
    """Cross-entropy against distributions over the classes, summed."""
    return keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=label_smoothing, reduction="sum"
    )


class ClassEvaluator(Evaluator):
    """Accuracy and loss on the validation set; the accuracy of each class goes to a file.

    Args:
        probabilities: a function without arguments → (N, C).
        labels: (N,) class indices.
        class_names: C names.
    """

    suffix = ".json"

    def __init__(self, probabilities: Callable, labels, class_names: list[str]):
        self.probabilities, self.labels, self.class_names = probabilities, labels, class_names

    def scores(self) -> dict[str, Any]:
        return classification_scores(self.probabilities(), self.labels, self.class_names)

    def whole_metric(self):
        return self.scores()["accuracy"]

    def evaluate(self):
        scores = self.scores()
        samples = json.dumps(scores, indent=2, ensure_ascii=False)
        summary = (
            f"accuracy {scores['accuracy']:.2f} % · top 5 {scores['top_5']:.2f} % · "
            f"loss {scores['loss']:.3f}"
        )
        kept = {name: scores[name] for name in ("accuracy", "top_5")}
        return Evaluation(kept | {"validation_loss": scores["loss"]}, summary, samples)


def score_classes(
    probabilities: Callable, labels, class_names: list[str], path: Path, title: str, unit: str
) -> dict[str, Any]:
    """Scores on a test set, with the speed; plots the confusion matrix to `path`."""
    from tfx_transformer.visualization.images import plot_confusion

    found, seconds = timed(probabilities)
    scores = classification_scores(found, labels, class_names)
    scores[unit] = scores.pop("images")
    counts = confusion_matrix(found.argmax(axis=1), labels, len(class_names))
    plot_confusion(counts, class_names, path, title)
    return scores | {f"{unit}_per_second": len(labels) / seconds}


def write_class_names(folder: Path, class_names: Sequence[str]) -> None:
    (folder / "classes.json").write_text(json.dumps(list(class_names), ensure_ascii=False))


def read_class_names(folder: Path) -> list[str]:
    return json.loads((folder / "classes.json").read_text())


def in_batches(
    items: Sequence | np.ndarray, batch_size: int, function: Callable, name: str
) -> np.ndarray:
    """Applies a function to batches of the items and joins the rows of its results."""
    from tqdm import tqdm

    starts = tqdm(range(0, len(items), batch_size), name, disable=None, leave=False)
    return np.concatenate([function([*items[i : i + batch_size]]) for i in starts])
