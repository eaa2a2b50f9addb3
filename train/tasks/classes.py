"""What the classifiers of images and of texts share."""

import abc
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfx_transformer.data.sources import is_text
from tfx_transformer.files import reading, write_file
from tfx_transformer.train.tasks.base import Evaluation, Evaluator, Task, check_one_source, timed
from tfx_transformer.training.classification_metrics import classification_scores, confusion_matrix

BATCH_SIZE = 64  # of evaluations


class ClassTask(Task):
    """Classification of anything.

    Attributes:
        class_names: C names.
        splits: the data for train, validation and test.
    """

    metric = "accuracy"
    class_names: list[str]
    splits: dict[str, Any]

    @property
    def loss(self):
        return keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=self.recipe.label_smoothing, reduction="sum"
        )

    def prepare(self, folder):
        names = json.dumps(list(self.class_names), ensure_ascii=False)
        if self.workers.is_chief:
            write_file(folder / "classes.json", names)

    def restore(self, folder):
        path = folder / "classes.json"
        with reading(path):
            self.class_names = json.loads(path.read_text("utf-8"))
            if not isinstance(self.class_names, list) or not all(map(is_text, self.class_names)):
                raise ValueError("it must contain a list of names")

    @abc.abstractmethod
    def load_test(self, *data: str) -> Any:
        """The test set, or another one; it has a `name`."""

    @abc.abstractmethod
    def examples(self, split) -> tuple[Sequence, np.ndarray]:
        """N inputs and the indices of their classes; raises if a class is not the run's."""

    @abc.abstractmethod
    def logits(self, classifier, batch) -> tf.Tensor:
        """(B, C) for a batch of inputs."""

    def probabilities(self, classifier, inputs: Sequence) -> np.ndarray:
        """(N, C), in the order of the inputs."""

        def predict(batch):
            logits = self.logits(classifier, tf.constant(batch))
            return tf.nn.softmax(tf.cast(logits, tf.float32)).numpy()

        def predict_all(items):
            return in_batches(items, BATCH_SIZE, predict, "classifying")

        return self.workers.divide(predict_all, inputs)

    def evaluator(self, model):
        classifier = self.pipeline(model)
        inputs, labels = self.examples(self.splits["validation"])
        return ClassEvaluator(
            lambda: self.probabilities(classifier, inputs), labels, self.class_names
        )

    @property
    def test_ratio(self):
        return len(self.splits["test"]) / len(self.splits["validation"])

    def describe_plan(self):
        splits, own = self.splits["train"], self.recipe.model.options
        size = f"{own['image_size']} pixels, " if "image_size" in own else ""
        depth = f"{own['depth']} blocks of {own['dim']}" if "dim" in own else self.recipe.model.name
        count = f"{len(splits):,} {self.unit} of {len(self.class_names)} classes"
        return f"{count} → {size}{depth}"

    def test(self, run, data, **options):
        """The confusion matrix is plotted too."""
        from tfx_transformer.visualization.confusion import plot_confusion

        check_one_source(self.noun, data)
        split = self.load_test(*data)
        (inputs, labels), classifier = self.examples(split), run.pipeline(**options)
        self.probabilities(classifier, inputs[:1])  # traces
        found, seconds = timed(lambda: self.probabilities(classifier, inputs))
        scores = classification_scores(found, labels, self.class_names)
        scores[self.unit] = scores.pop("images")
        counts = confusion_matrix(found.argmax(axis=1), labels, len(self.class_names))
        if self.workers.is_chief:
            path = run.folder / "pictures/confusion.png"
            plot_confusion(counts, self.class_names, path)
            print(f"confusion matrix: {path}", file=sys.stderr)
        return scores | {f"{self.unit}_per_second": len(labels) / seconds}


@dataclass
class ClassEvaluator(Evaluator):
    """Accuracy and loss on the whole validation set; the accuracy of each class goes to a file."""

    suffix, shown = ".json", 0
    probabilities: Callable[[], np.ndarray]  # → (N, C)
    labels: np.ndarray  # (N,) class indices
    class_names: list[str]

    def evaluate(self, whole=True):
        scores = classification_scores(self.probabilities(), self.labels, self.class_names)
        summary = (
            f"accuracy {scores['accuracy']:.2f} % · top 5 {scores['top_5']:.2f} % · "
            f"loss {scores['loss']:.3f}"
        )
        kept = {name: scores[name] for name in ("accuracy", "top_5")}
        kept["validation_loss"] = scores["loss"]
        return Evaluation(kept, summary, [json.dumps(scores, indent=2, ensure_ascii=False)])


def in_batches(
    items: Sequence | np.ndarray, batch_size: int, function: Callable, name: str
) -> np.ndarray:
    """Applies a function to batches of the items and joins the rows of its results."""
    from tqdm import tqdm

    starts = tqdm(range(0, len(items), batch_size), name, disable=None, leave=False)
    return np.concatenate([function([*items[i : i + batch_size]]) for i in starts])
