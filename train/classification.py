"""Image classification as a task: its data, its model, and how good it is."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.accuracy import classification_scores, confusion
from tfx_transformer.classifier import Classifier
from tfx_transformer.data import Images, load_images, training_images
from tfx_transformer.image_plots import plot_confusion
from tfx_transformer.models import create_model
from tfx_transformer.strategy import check_replicas
from tfx_transformer.train.folder import ClassifyRun, tell_skipped
from tfx_transformer.train.pretrained import check_normalisation, picture_options, start_pictures
from tfx_transformer.train.recipe import ClassifyRecipe

BATCH = 64  # images that are evaluated together


class Classification:
    """What `train` asks of a task; made from a recipe, it reads the data.

    Args:
        recipe: of the run.
    """

    metric, unit = "accuracy", "images"

    def __init__(self, recipe: ClassifyRecipe):
        if not recipe.data.source:
            raise ValueError("data.source must name a source; see --help")
        if recipe.weights:
            check_normalisation(recipe.weights, recipe.data.normalisation)
        self.recipe = recipe
        splits = ("train", "validation", "test")
        self.images = {split: load_images(recipe.data.source, split) for split in splits}
        self.class_names = self.images["train"].class_names
        self.loss = keras.losses.CategoricalCrossentropy(
            from_logits=True, label_smoothing=recipe.label_smoothing, reduction="sum"
        )

    def prepare(self, folder: Path, replicas: int) -> None:
        """Makes the batches, and keeps the names of the classes in the folder."""
        recipe, model = self.recipe, create_model_for(self.recipe, len(self.class_names))
        check_replicas(replicas, recipe.data.batch_size)
        self.data = training_images(
            self.images["train"],
            model.image_size,
            recipe.data.batch_size,
            recipe.data.normalisation,
            seed=recipe.seed,
            **dataclasses.asdict(recipe.augment),
        )
        self.units_per_batch = self.data.batch_size
        (folder / "classes.json").write_text(json.dumps(self.class_names, ensure_ascii=False))
        tell_skipped(folder, self.images)
        print(self.data, self.images["validation"], self.images["test"], sep="\n")

    def make_model(self):
        model = create_model_for(self.recipe, len(self.class_names))
        model.build((None, model.image_size, model.image_size, 3))
        if self.recipe.weights:
            left = start_pictures(model, self.recipe.weights, self.class_names)
            print(f"{self.recipe.weights}: all weights but {', '.join(left) or 'none'}")
        return model

    def batches(self, done: int) -> tf.data.Dataset:
        """The batches from number `done` on."""
        return self.data.stream(*divmod(done, self.data.steps_per_epoch))

    def judge(self, model) -> "Judge":
        return Judge(model, self.images["validation"], self.recipe)


def create_model_for(recipe: ClassifyRecipe, num_classes: int):
    """The recipe's model, not built yet; what it does not say is as the weights have it."""
    own = recipe.model
    found = picture_options(recipe.weights, own.name) if recipe.weights else {}
    options = found | own.overrides() | {"num_classes": num_classes}
    return create_model(own.name, own.variant, **options)


class Judge:
    """Scores a model while it trains, on the validation set.

    Args:
        model: the one that is trained.
        images: the validation set.
        recipe: of the run.
    """

    def __init__(self, model, images: Images, recipe: ClassifyRecipe):
        data = recipe.data
        self.classifier = Classifier(model, images.class_names, data.crop_ratio, data.normalisation)
        self.images = images

    def scores(self) -> dict[str, Any]:
        found = probabilities(self.classifier, self.images)
        return classification_scores(found, self.images.labels, self.images.class_names)

    def whole(self) -> float:
        return self.scores()["accuracy"]

    def __call__(self, step: int, samples: Path) -> dict[str, float]:
        """Accuracy, top-5 accuracy and loss; the accuracy of each class goes to a file."""
        scores = self.scores()
        samples.parent.mkdir(exist_ok=True)
        text = json.dumps(scores, indent=2, ensure_ascii=False)
        samples.with_suffix(".json").write_text(text)
        print(
            f"step {step:,}: accuracy {scores['accuracy']:.2f} % · top 5 {scores['top_5']:.2f} % · "
            f"loss {scores['loss']:.3f}"
        )
        kept = {name: scores[name] for name in ("accuracy", "top_5")}
        return kept | {"validation_loss": scores["loss"]}


def probabilities(classifier: Classifier, images: Images) -> np.ndarray:
    """(N, C), in the order of the images."""
    items, found = images.items, []
    for i in tqdm(range(0, len(items), BATCH), "classifying", disable=None, leave=False):
        batch, _ = classifier.read(
            tf.constant([items[j] for j in range(i, min(i + BATCH, len(items)))])
        )
        found.append(tf.nn.softmax(tf.cast(classifier.logits(batch), tf.float32)).numpy())
    return np.concatenate(found)


def classification_test(run: ClassifyRun, source: str = "") -> dict[str, Any]:
    """Scores of a run on its test set, or on another source; draws the confusions.

    Args:
        run: from `load_classify_run`.
        source: its folder test if it has one; otherwise all of it.
    """
    images = load_images(source or run.recipe.data.source, "test", cut=not source)
    print(images)
    if images.class_names != run.class_names:
        raise ValueError(
            f"{images.name} must have the run's classes, {', '.join(run.class_names[:5])} …; "
            f"got {', '.join(images.class_names[:5])} …"
        )
    classifier = run.classifier()
    probabilities(classifier, dataclasses.replace(images, items=images.items[:1]))  # traced
    start = time.perf_counter()
    found = probabilities(classifier, images)
    seconds = time.perf_counter() - start
    scores = classification_scores(found, images.labels, images.class_names)
    counts = confusion(found.argmax(axis=1), images.labels, len(images.class_names))
    plot_confusion(counts, images.class_names, run.folder / "pictures/confusion.png", images.name)
    return scores | {"images_per_second": len(images) / seconds}
