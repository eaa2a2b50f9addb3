"""Image classification as a task: data, model and pipeline."""

from pathlib import Path

from tfx_transformer.data import ImageBatches, load_images
from tfx_transformer.pipelines import Classifier
from tfx_transformer.train.run_folder import write_skipped
from tfx_transformer.train.tasks.base import SPLITS, refuse
from tfx_transformer.train.tasks.classes import ClassTask
from tfx_transformer.train.tasks.classification.sizes import propose_sizes
from tfx_transformer.train.tasks.pretrained import (
    assign_pretrained,
    check_normalization,
    pretrained_options,
)


class ClassificationTask(ClassTask):
    """Classification of images."""

    noun, kind, unit = "classifier", "classifier", "images"
    useful_epochs, batches_follow_model, sized_model = (12, 200), True, "vit"

    def load_data(self):
        recipe = self.recipe
        if recipe.weights:
            check_normalization(recipe.weights, recipe.data.normalization)
        self.splits = {split: self.load(split) for split in SPLITS}
        self.class_names = self.splits["train"].class_names

    def load(self, split: str, source: str = "", hold_out=True):
        data = self.recipe.data
        source = source or data.source
        cache = Path(data.cache) if data.cache else self.cache
        return load_images(
            source, split, hold_out=hold_out, max_pixels=data.max_pixels, cache=cache
        )

    def prepare(self, folder):
        recipe, data = self.recipe, self.recipe.data
        self.data = ImageBatches(
            self.splits["train"],
            self.new_model().image_size,
            data.batch_size,
            augmentation=recipe.augment,
            seed=recipe.seed,
            class_weights=data.class_weights,
            **data.image_options,
        )
        self.units_per_batch = self.data.batch_size
        super().prepare(folder)
        if self.workers.is_chief:
            write_skipped(folder, self.splits)
        print(self.data, self.splits["validation"], self.splits["test"], sep="\n")

    def sizes(self):
        if self.recipe.weights:
            return super().sizes()
        return propose_sizes(self.recipe, self.splits["train"])

    def new_model(self):
        """The model with its initial weights; sizes not given are those of pretrained weights."""
        own, weights = self.recipe.model, self.recipe.weights
        found = pretrained_options(weights, own.name, self.recipe.task) if weights else {}
        return self.create_model(found, num_classes=len(self.class_names))

    def make_model(self):
        model, weights = self.new_model(), self.recipe.weights
        if weights:
            assign_pretrained(model, weights, self.recipe.task, self.class_names)
        return model

    def pipeline(self, model, top_k=5, jit_compile=False, **other):
        refuse(self.noun, other)
        own = self.recipe.data.image_options
        return Classifier(model, self.class_names, top_k=top_k, jit_compile=jit_compile, **own)

    def load_test(self, *data):
        """Other data may have a folder test; otherwise all of it is used."""
        images = self.load("test", *data, hold_out=not data)
        print(images)
        return images

    def examples(self, split):
        if split.class_names != self.class_names:
            raise ValueError(
                f"{split.name} must have the run's classes, {', '.join(self.class_names[:5])} …; "
                f"got {', '.join(split.class_names[:5])} …"
            )
        return split.items, split.labels

    def logits(self, classifier, batch):
        pixels, _ = classifier.read(batch)
        return classifier.logits(pixels)


TASK = ClassificationTask
