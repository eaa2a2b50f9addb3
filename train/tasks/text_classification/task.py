"""Text classification as a task: data, model and pipeline."""

import numpy as np

from tfx_transformer.data.text.labeled import Labeled, load_labeled
from tfx_transformer.data.text.labeled_batches import LabeledBatches
from tfx_transformer.pipelines import TextClassifier
from tfx_transformer.train.tasks.base import SPLITS, refuse
from tfx_transformer.train.tasks.classes import ClassTask
from tfx_transformer.train.tasks.pretrained import (
    PRETRAINING,
    assign_pretrained,
    find_tokenizer,
    pretrained_options,
)
from tfx_transformer.train.tasks.text import load_tokenizer, sentence_tokenizer, stored_tokenizer
from tfx_transformer.train.tasks.text_classification import TextClassificationData


class TextClassificationTask(ClassTask):
    """Classification of texts."""

    noun, kind, unit = "text classifier", "text_classifier", "texts"

    def load_data(self):
        self.splits = {split: load_split(self.recipe.data, split) for split in SPLITS}
        self.class_names = sorted(set(self.splits["train"].labels))
        for split in self.splits.values():
            self.examples(split)  # raises if a class is unknown

    def prepare(self, folder):
        data, train = self.recipe.data, self.splits["train"]
        if self.recipe.weights:
            self.tokenizer = stored_tokenizer(folder, lambda: find_tokenizer(self.recipe.weights))
        else:
            self.tokenizer = sentence_tokenizer(data, train.texts, folder)
        self.data = LabeledBatches(
            *self.examples(train),
            len(self.class_names),
            self.tokenizer,
            data.batch_size,
            data.max_length,
            self.recipe.seed,
        )
        self.units_per_batch = len(train) / self.data.steps_per_epoch
        super().prepare(folder)
        print(train, self.data, sep="\n")

    def restore(self, folder):
        super().restore(folder)
        self.tokenizer = load_tokenizer(folder)

    def make_model(self):
        own, weights, length = self.recipe.model, self.recipe.weights, self.recipe.data.max_length
        sizes = {"vocab_size": self.tokenizer.vocab_size}
        head = {"head": "classify", "num_classes": len(self.class_names)}
        if not weights:
            return self.create_model(**sizes, **head, max_length=length)
        sizes |= pretrained_options(weights, own.name, PRETRAINING) | {"next_sentence": False}
        model = self.create_model(sizes, **head)
        if length > model.max_length:
            raise ValueError(
                f"data.max_length must not exceed the {model.max_length} positions of {weights}; "
                f"got {length}"
            )
        assign_pretrained(model, weights, PRETRAINING, self.class_names)
        return model

    def pipeline(self, model, top_k=5, max_length=None, **other):
        refuse(self.noun, other)
        length = max_length or self.recipe.data.max_length
        return TextClassifier(model, self.tokenizer, self.class_names, length, top_k)

    def load_test(self, *data):
        return load_labeled(*data, "test", ()) if data else load_split(self.recipe.data)

    def examples(self, split):
        indices = {name: index for index, name in enumerate(self.class_names)}
        unknown = sorted(set(split.labels) - indices.keys())
        if unknown:
            raise ValueError(
                f"{split.name} must have the classes {', '.join(self.class_names[:5])} … of the "
                f"training set; got {', '.join(unknown[:5])}"
            )
        return split.texts, np.array([indices[label] for label in split.labels])

    def logits(self, classifier, batch):
        return classifier.logits(classifier.read(batch))

    def probabilities(self, classifier, inputs):
        """Texts of similar length share a batch."""
        order = np.argsort([len(text) for text in inputs], kind="stable")
        rows = super().probabilities(classifier, [inputs[i] for i in order])
        return rows[np.argsort(order)]


TASK = TextClassificationTask


def load_split(data: TextClassificationData, split: str = "test") -> Labeled:
    """One of train, validation and test; those not named come from the source of the first."""
    if getattr(data, split) and split != "train":
        return load_labeled(getattr(data, split), split, hold_out=())
    hold_out = [name for name in ("validation", "test") if not getattr(data, name)]
    return load_labeled(data.train, split, hold_out)
