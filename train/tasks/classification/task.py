"""Image classification as a task: data, model, evaluation and pipeline."""

import dataclasses

import numpy as np
import tensorflow as tf

from tfx_transformer.data import Images, load_images, training_images
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Classifier
from tfx_transformer.train.run_folder import write_skipped
from tfx_transformer.train.tasks.base import Task, check_one_source, refuse
from tfx_transformer.train.tasks.classes import (
    ClassEvaluator,
    class_loss,
    in_batches,
    read_class_names,
    score_classes,
    write_class_names,
)
from tfx_transformer.train.tasks.pretrained import (
    check_normalization,
    classifier_options,
    load_classifier_weights,
)
from tfx_transformer.training.strategy import check_replicas

BATCH_SIZE = 64  # of evaluations


class ClassificationTask(Task):
    """Classification of images."""

    noun, kind = "classifier", "classifier"
    metric, unit = "accuracy", "images"

    def load_data(self):
        recipe = self.recipe
        if not recipe.data.source:
            raise ValueError("data.source must name a source; see --help")
        if recipe.weights:
            check_normalization(recipe.weights, recipe.data.normalization)
        splits = ("train", "validation", "test")
        self.images = {split: load_images(recipe.data.source, split) for split in splits}
        self.class_names = self.images["train"].class_names
        self.loss = class_loss(recipe.label_smoothing)

    def prepare(self, folder, replicas):
        recipe, data = self.recipe, self.recipe.data
        check_replicas(replicas, data.batch_size)
        self.data = training_images(
            self.images["train"],
            self.create_model().image_size,
            data.batch_size,
            data.normalization,
            recipe.augment,
            seed=recipe.seed,
        )
        self.units_per_batch = self.data.batch_size
        write_class_names(folder, self.class_names)
        write_skipped(folder, self.images)
        print(self.data, self.images["validation"], self.images["test"], sep="\n")

    def restore(self, folder):
        self.class_names = read_class_names(folder)

    def create_model(self):
        """The model with its initial weights; sizes not given are those of pretrained weights."""
        own, weights = self.recipe.model, self.recipe.weights
        found = classifier_options(weights, own.name) if weights else {}
        options = found | own.options | {"num_classes": len(self.class_names)}
        return create_model(own.name, own.variant, **options)

    def make_model(self):
        model, weights = self.create_model(), self.recipe.weights
        if weights:
            new = load_classifier_weights(model, weights, self.class_names)
            print(f"{weights}: all weights loaded except {', '.join(new) or 'none'}")
        return model

    def evaluator(self, model):
        images, classifier = self.images["validation"], self.pipeline(model)
        return ClassEvaluator(
            lambda: probabilities(classifier, images), images.labels, images.class_names
        )

    def pipeline(self, model, top_k=5, jit_compile=False, **other):
        refuse(self.noun, other)
        data = self.recipe.data
        return Classifier(
            model, self.class_names, data.crop_ratio, data.normalization, top_k, jit_compile
        )

    def test(self, run, data, **options):
        """Other data may have a folder test; otherwise all of it is used."""
        check_one_source(self.noun, data)
        images = load_images(*(data or [self.recipe.data.source]), "test", hold_out=not data)
        print(images)
        if images.class_names != self.class_names:
            raise ValueError(
                f"{images.name} must have the run's classes, {', '.join(self.class_names[:5])} …; "
                f"got {', '.join(images.class_names[:5])} …"
            )
        classifier, path = run.pipeline(**options), run.folder / "pictures/confusion.png"
        probabilities(classifier, dataclasses.replace(images, items=images.items[:1]))  # traces
        return score_classes(
            lambda: probabilities(classifier, images),
            images.labels,
            self.class_names,
            path,
            images.name,
            self.unit,
        )


TASK = ClassificationTask


def probabilities(classifier: Classifier, images: Images) -> np.ndarray:
    """(N, C), in the order of the images."""

    def predict(encoded):
        pixels, _ = classifier.read(tf.constant(encoded))
        return tf.nn.softmax(tf.cast(classifier.logits(pixels), tf.float32)).numpy()

    return in_batches(images.items, BATCH_SIZE, predict, "classifying")
