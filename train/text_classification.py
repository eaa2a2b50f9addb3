"""Text classification as a task: its data, its model, and how good it is."""

import json
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.accuracy import classification_scores, confusion
from tfx_transformer.data.labelled import Labelled, load_labelled
from tfx_transformer.data.labelled_batches import labelled_data
from tfx_transformer.image_plots import plot_confusion
from tfx_transformer.models import create_model
from tfx_transformer.strategy import check_replicas
from tfx_transformer.text_classifier import TextClassifier
from tfx_transformer.train.folder import TEXT, ClassifyTextRun, load_text_tokenizer
from tfx_transformer.train.masked_language import make_tokenizer
from tfx_transformer.train.pretrained import find_tokenizer, make_pretrained
from tfx_transformer.train.text_recipe import ClassifyTextData, ClassifyTextRecipe

BATCH = 64  # texts that are evaluated together


class TextClassification:
    """What `train` asks of a task; made from a recipe, it reads the data.

    Args:
        recipe: of the run.
    """

    metric, unit = "accuracy", "texts"

    def __init__(self, recipe: ClassifyTextRecipe):
        self.recipe = recipe
        splits = ("train", "validation", "test")
        self.labelled = {split: load_split(recipe.data, split) for split in splits}
        self.class_names = sorted(set(self.labelled["train"].labels))
        for labelled in self.labelled.values():
            number(labelled, self.class_names)  # an unknown class is told before any training
        self.loss = keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=recipe.label_smoothing, reduction="sum"
        )

    def prepare(self, folder: Path, replicas: int) -> None:
        """Finds the tokenizer, makes the batches, and keeps the names of the classes."""
        own, train = self.recipe.data, self.labelled["train"]
        check_replicas(replicas, own.batch_size)
        self.tokenizer = keep_tokenizer(self.recipe, train.texts, folder / "tokenizer")
        self.data = labelled_data(
            train.texts,
            number(train, self.class_names),
            len(self.class_names),
            self.tokenizer,
            own.batch_size,
            own.max_length,
            self.recipe.seed,
        )
        self.units_per_batch = len(train) / self.data.steps_per_epoch
        (folder / "classes.json").write_text(json.dumps(self.class_names, ensure_ascii=False))
        print(train, self.data, sep="\n")

    def make_model(self):
        return make_model(self.recipe, self.tokenizer, len(self.class_names))

    def batches(self, done: int) -> tf.data.Dataset:
        """The batches from number `done` on."""
        return self.data.stream(*divmod(done, self.data.steps_per_epoch))

    def judge(self, model) -> "Judge":
        length = self.recipe.data.max_length
        classifier = TextClassifier(model, self.tokenizer, self.class_names, length)
        return Judge(classifier, self.labelled["validation"])


def load_split(data: ClassifyTextData, split: str = "test") -> Labelled:
    """One of train, validation and test; those not named come from the source of the first."""
    if not data.train:
        raise ValueError("data.train must name a source; see --help")
    if getattr(data, split) and split != "train":
        return load_labelled(getattr(data, split), split, cut=())
    cut = [name for name in ("validation", "test") if not getattr(data, name)]
    return load_labelled(data.train, split, cut)


def number(labelled: Labelled, class_names: list[str]) -> np.ndarray:
    """The labels as places in `class_names`: (N,)."""
    places = {name: place for place, name in enumerate(class_names)}
    unknown = sorted(set(labelled.labels) - places.keys())
    if unknown:
        raise ValueError(
            f"{labelled.name} must have the classes {', '.join(class_names[:5])} … of the training "
            f"set; got {', '.join(unknown[:5])}"
        )
    return np.array([places[label] for label in labelled.labels])


def keep_tokenizer(recipe: ClassifyTextRecipe, texts: list[str], folder: Path):
    """That of the weights, or one trained at the first call; read from the folder later."""
    if not recipe.weights:
        return make_tokenizer(recipe.data, texts, folder)
    if not folder.exists():
        tokenizer = find_tokenizer(recipe.weights)
        folder.mkdir(parents=True)
        tokenizer.save(folder / TEXT if hasattr(tokenizer, "model") else folder)
    return load_text_tokenizer(folder)


def make_model(recipe: ClassifyTextRecipe, tokenizer, num_classes: int):
    """The recipe's model, built, with the weights to start from."""
    own, length = recipe.model, recipe.data.max_length
    if recipe.weights:
        model = make_pretrained(recipe.weights, own, tokenizer, num_classes)
        if length > model.max_length:
            raise ValueError(
                f"data.max_length must not exceed the {model.max_length} positions of "
                f"{recipe.weights}; got {length}"
            )
        return model
    options = {"vocab_size": tokenizer.vocab_size, "max_length": length}
    options |= {"head": "classify", "num_classes": num_classes}
    model = create_model(own.name, own.variant, **own.overrides() | options)
    model.build((None, None))
    return model


class Judge:
    """Scores a model while it trains, on the validation set.

    Args:
        classifier: with the model that is trained.
        labelled: the validation set.
    """

    def __init__(self, classifier: TextClassifier, labelled: Labelled):
        self.classifier, self.labelled = classifier, labelled

    def scores(self) -> dict[str, Any]:
        names = self.classifier.class_names
        found = probabilities(self.classifier, self.labelled.texts)
        return classification_scores(found, number(self.labelled, names), names)

    def whole(self) -> float:
        return self.scores()["accuracy"]

    def __call__(self, step: int, samples: Path) -> dict[str, float]:
        """Accuracy and loss; the accuracy of each class goes to a file."""
        scores = self.scores()
        samples.parent.mkdir(exist_ok=True)
        text = json.dumps(scores, indent=2, ensure_ascii=False)
        samples.with_suffix(".json").write_text(text)
        print(f"step {step:,}: accuracy {scores['accuracy']:.2f} % · loss {scores['loss']:.3f}")
        return {"accuracy": scores["accuracy"], "validation_loss": scores["loss"]}


def probabilities(classifier: TextClassifier, texts: list[str]) -> np.ndarray:
    """(N, C), in the order of the texts; those of like length are looked at together."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    found = np.zeros((len(texts), len(classifier.class_names)))
    for i in tqdm(range(0, len(order), BATCH), "classifying", disable=None, leave=False):
        places = order[i : i + BATCH]
        tokens = classifier.read(tf.constant([texts[place] for place in places]))
        logits = tf.cast(classifier.logits(tokens), tf.float32)
        found[places] = tf.nn.softmax(logits).numpy()
    return found


def text_classification_test(run: ClassifyTextRun, source: str = "") -> dict[str, Any]:
    """Scores of a run on its test set, or on another source; draws the confusions."""
    labelled = load_labelled(source, "test", ()) if source else load_split(run.recipe.data)
    names, classifier = run.class_names, run.classifier()
    labels = number(labelled, names)
    probabilities(classifier, labelled.texts[:1])  # traced
    start = time.perf_counter()
    found = probabilities(classifier, labelled.texts)
    seconds = time.perf_counter() - start
    scores = classification_scores(found, labels, names)
    scores["texts"] = scores.pop("images")
    counts = confusion(found.argmax(axis=1), labels, len(names))
    plot_confusion(counts, names, run.folder / "pictures/confusion.png", labelled.name)
    return scores | {"texts_per_second": len(labelled) / seconds}
