"""Text classification as a task: data, model, evaluation and pipeline."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.labeled import Labeled, load_labeled
from tfx_transformer.data.text.labeled_batches import labeled_data
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import TextClassifier
from tfx_transformer.train.tasks.base import Task, check_one_source, refuse
from tfx_transformer.train.tasks.classes import (
    ClassEvaluator,
    class_loss,
    in_batches,
    read_class_names,
    score_classes,
    write_class_names,
)
from tfx_transformer.train.tasks.pretrained import find_tokenizer, make_pretrained_encoder
from tfx_transformer.train.tasks.text import TOKENIZER, load_tokenizer, sentence_tokenizer
from tfx_transformer.train.tasks.text_classification import TextClassificationData
from tfx_transformer.training.strategy import check_replicas

BATCH_SIZE = 64  # of evaluations


class TextClassificationTask(Task):
    """Classification of texts."""

    noun, kind = "text classifier", "text_classifier"
    metric, unit = "accuracy", "texts"

    def load_data(self):
        splits = ("train", "validation", "test")
        self.labeled = {split: load_split(self.recipe.data, split) for split in splits}
        self.class_names = sorted(set(self.labeled["train"].labels))
        for labeled in self.labeled.values():
            class_indices(labeled, self.class_names)  # raises if a class is unknown
        self.loss = class_loss(self.recipe.label_smoothing)

    def prepare(self, folder, replicas):
        data, train = self.recipe.data, self.labeled["train"]
        check_replicas(replicas, data.batch_size)
        self.tokenizer = self.make_tokenizer(train.texts, folder)
        self.data = labeled_data(
            train.texts,
            class_indices(train, self.class_names),
            len(self.class_names),
            self.tokenizer,
            data.batch_size,
            data.max_length,
            self.recipe.seed,
        )
        self.units_per_batch = len(train) / self.data.steps_per_epoch
        write_class_names(folder, self.class_names)
        print(train, self.data, sep="\n")

    def restore(self, folder):
        self.tokenizer, self.class_names = load_tokenizer(folder), read_class_names(folder)

    def make_tokenizer(self, texts: list[str], folder: Path):
        """The tokenizer of the pretrained weights, or one trained on the texts."""
        recipe, path = self.recipe, folder / TOKENIZER
        if not recipe.weights:
            return sentence_tokenizer(recipe.data, texts, folder)
        if not path.parent.exists():
            tokenizer = find_tokenizer(recipe.weights)
            path.parent.mkdir(parents=True)
            tokenizer.save(path if hasattr(tokenizer, "model") else path.parent)
        return load_tokenizer(folder)

    def make_model(self):
        own, length = self.recipe.model, self.recipe.data.max_length
        weights, count = self.recipe.weights, len(self.class_names)
        if weights:
            model = make_pretrained_encoder(weights, own, self.tokenizer, count)
            if length > model.max_length:
                raise ValueError(
                    f"data.max_length must not exceed the {model.max_length} positions of "
                    f"{weights}; got {length}"
                )
            return model
        sizes = {"vocab_size": self.tokenizer.vocab_size, "max_length": length}
        head = {"head": "classify", "num_classes": count}
        return create_model(own.name, own.variant, **own.options | sizes | head)

    def evaluator(self, model):
        labeled, classifier = self.labeled["validation"], self.pipeline(model)
        labels = class_indices(labeled, self.class_names)
        return ClassEvaluator(
            lambda: probabilities(classifier, labeled.texts), labels, self.class_names
        )

    def pipeline(self, model, top_k=5, max_length=None, **other):
        refuse(self.noun, other)
        length = max_length or self.recipe.data.max_length
        return TextClassifier(model, self.tokenizer, self.class_names, length, top_k)

    def test(self, run, data, **options):
        check_one_source(self.noun, data)
        labeled = load_labeled(*data, "test", ()) if data else load_split(self.recipe.data)
        labels, classifier = class_indices(labeled, self.class_names), run.pipeline(**options)
        probabilities(classifier, labeled.texts[:1])  # traces
        return score_classes(
            lambda: probabilities(classifier, labeled.texts),
            labels,
            self.class_names,
            run.folder / "pictures/confusion.png",
            labeled.name,
            self.unit,
        )


TASK = TextClassificationTask


def load_split(data: TextClassificationData, split: str = "test") -> Labeled:
    """One of train, validation and test; those not named come from the source of the first."""
    if not data.train:
        raise ValueError("data.train must name a source; see --help")
    if getattr(data, split) and split != "train":
        return load_labeled(getattr(data, split), split, hold_out=())
    hold_out = [name for name in ("validation", "test") if not getattr(data, name)]
    return load_labeled(data.train, split, hold_out)


def class_indices(labeled: Labeled, class_names: list[str]) -> np.ndarray:
    """The labels as indices into `class_names`: (N,)."""
    indices = {name: index for index, name in enumerate(class_names)}
    unknown = sorted(set(labeled.labels) - indices.keys())
    if unknown:
        raise ValueError(
            f"{labeled.name} must have the classes {', '.join(class_names[:5])} … of the training "
            f"set; got {', '.join(unknown[:5])}"
        )
    return np.array([indices[label] for label in labeled.labels])


def probabilities(classifier: TextClassifier, texts: list[str]) -> np.ndarray:
    """(N, C), in the order of the texts; texts of similar length share a batch."""

    def predict(batch):
        logits = classifier.logits(classifier.read(tf.constant(batch)))
        return tf.nn.softmax(tf.cast(logits, tf.float32)).numpy()

    order = np.argsort([len(text) for text in texts], kind="stable")
    rows = in_batches([texts[i] for i in order], BATCH_SIZE, predict, "classifying")
    return rows[np.argsort(order)]
