"""Filling in blanks as a task, from which others start: its data, its model, how good it is."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.data import PAD, Tokenizer, train_tokenizer
from tfx_transformer.data.language import load_text
from tfx_transformer.data.masking import MaskedData, masked_data
from tfx_transformer.losses import TokenCrossentropy
from tfx_transformer.models import create_model
from tfx_transformer.train.folder import TEXT, MaskRun, stored_tokenizer
from tfx_transformer.train.text_recipe import ClassifyTextData, MaskData, MaskRecipe
from tfx_transformer.train.text_splits import read_splits
from tfx_transformer.train.token_meter import TokenMeter

SAMPLES = 20  # rows of which the answers are shown


class MaskedLanguage:
    """What `train` asks of a task; made from a recipe, it reads the data.

    Args:
        recipe: of the run.
    """

    metric, unit = "accuracy", "tokens"

    def __init__(self, recipe: MaskRecipe):
        self.recipe, texts = recipe, read_splits(recipe.data)
        self.lines = {split: text.split("\n") for split, text in texts.items()}
        self.loss = TokenCrossentropy(recipe.label_smoothing)

    def prepare(self, folder: Path, replicas: int) -> None:
        """Trains the tokenizer, or reads it from the folder, and makes the batches."""
        recipe, lines = self.recipe, self.lines["train"]
        self.tokenizer = make_tokenizer(recipe.data, lines, folder / "tokenizer")
        self.data = hide(recipe.data, lines, self.tokenizer, replicas, recipe.seed)
        self.units_per_batch = self.data.lengths.sum() / self.data.steps_per_epoch
        print(f"{recipe.data}: {self.data}")

    def make_model(self):
        return make_model(self.recipe, self.tokenizer)

    def batches(self, done: int) -> tf.data.Dataset:
        """The batches from number `done` on."""
        return self.data.stream(*divmod(done, self.data.steps_per_epoch))

    def judge(self, model) -> "Judge":
        data = hide(self.recipe.data, self.lines["validation"], self.tokenizer)
        return Judge(model, self.tokenizer, data, self.recipe.eval_batches)


def make_tokenizer(data: MaskData | ClassifyTextData, texts: list[str], folder: Path) -> Tokenizer:
    """Trained at the first call, read from the folder later."""
    normalisation = "nmt_nfkc_cf" if data.lower_case else "nmt_nfkc"
    options = data.vocab_size, data.tokenizer, normalisation
    return stored_tokenizer(folder / TEXT, lambda: train_tokenizer(texts, *options))


def hide(data: MaskData, lines: list[str], tokenizer, multiple=1, seed=0) -> MaskedData:
    """Batches of lines with some of their tokens hidden."""
    options = {"rate": data.rate, "whole_words": data.whole_words, "seed": seed}
    return masked_data(lines, tokenizer, data.token_budget, data.max_length, multiple, **options)


def make_model(recipe: MaskRecipe, tokenizer):
    """The recipe's model, built; the mask is one more token than those of the tokenizer."""
    own = recipe.model
    options = {"vocab_size": tokenizer.vocab_size + 1, "max_length": recipe.data.max_length}
    model = create_model(own.name, own.variant, **own.overrides() | options | {"head": "mlm"})
    model.build((None, None))
    return model


class Judge:
    """Scores a model while it trains, always on the same blanks of the validation set.

    Args:
        model: the one that is trained.
        tokenizer: of the texts.
        data: the validation set.
        batches: how many of it count.
    """

    def __init__(self, model, tokenizer, data: MaskedData, batches: int):
        self.model, self.batches, self.meter = model, batches, TokenMeter(model, data)
        self.pieces = [*tokenizer.pieces, "[MASK]"]
        inputs, self.targets, _ = next(data.dataset().as_numpy_iterator())
        self.inputs = {name: rows[:SAMPLES] for name, rows in inputs.items()}

    def whole(self) -> float:
        """The share of blanks that are filled in right, in the whole validation set."""
        return self.meter()["accuracy"]

    def __call__(self, step: int, samples: Path) -> dict[str, float]:
        """Accuracy, log-probability and perplexity; writes some answers to a file."""
        scores, lines = self.meter(self.batches), self.answers()
        samples.parent.mkdir(exist_ok=True)
        samples.with_suffix(".txt").write_text("\n".join(lines))
        print(
            f"step {step:,}: accuracy {scores['accuracy']:.2f} % · "
            f"perplexity {scores['perplexity']:.2f}\n" + "\n".join(lines[:3])
        )
        scores.pop("tokens")
        return scores

    def answers(self) -> list[str]:
        """Rows with their blanks, what was asked for, and what the model thought."""
        found = np.asarray(self.model(self.inputs, training=False)).argmax(axis=-1)
        lines = []
        for row, target, guess in zip(self.inputs["tokens"], self.targets, found, strict=False):
            asked = target != PAD
            name = self.pieces.__getitem__
            lines.append(
                f"text       {' '.join(map(name, row[row != PAD]))}\n"
                f"hidden     {' '.join(map(name, target[asked]))}\n"
                f"model      {' '.join(map(name, guess[asked]))}\n"
            )
        return lines


def masked_language_test(run: MaskRun, source: str = "") -> dict[str, Any]:
    """Scores of a run on the blanks of its test set, or of another text."""
    own = run.recipe.data
    text = load_text(source) if source else read_splits(own)["test"]
    meter = TokenMeter(run.model, hide(own, text.split("\n"), run.tokenizer))
    meter(1)  # traced
    start = time.perf_counter()
    scores: dict[str, Any] = meter()
    scores["blanks"] = scores.pop("tokens")
    return scores | {"blanks_per_second": scores["blanks"] / (time.perf_counter() - start)}
