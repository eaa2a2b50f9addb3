"""Masked language modeling as a task: data, model and evaluation."""

import numpy as np

from tfx_transformer.data import PAD
from tfx_transformer.data.text.language import load_text
from tfx_transformer.data.text.masking import masked_data
from tfx_transformer.models import create_model
from tfx_transformer.train.tasks.base import (
    Evaluation,
    Evaluator,
    Task,
    check_one_source,
    refuse,
    timed,
)
from tfx_transformer.train.tasks.text import load_tokenizer, read_splits, sentence_tokenizer
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.training.token_metrics import TokenMetrics

SAMPLES = 20  # rows whose predictions are shown


class MaskedLanguageModelTask(Task):
    """Prediction of masked tokens, as pretraining for other tasks."""

    noun, metric, unit = "masked language model", "accuracy", "tokens"

    def load_data(self):
        texts = read_splits(self.recipe.data)
        self.lines = {split: text.split("\n") for split, text in texts.items()}
        self.loss = TokenCrossentropy(self.recipe.label_smoothing, reduction="sum")

    def prepare(self, folder, replicas):
        data, lines = self.recipe.data, self.lines["train"]
        self.tokenizer = sentence_tokenizer(data, lines, folder)
        self.data = self.mask(lines, replicas, self.recipe.seed)
        self.units_per_batch = self.data.lengths.sum() / self.data.steps_per_epoch
        print(f"{data}: {self.data}")

    def restore(self, folder):
        self.tokenizer = load_tokenizer(folder)

    def mask(self, lines: list[str], multiple: int = 1, seed: int = 0):
        """Batches of lines with some of their tokens masked."""
        data = self.recipe.data
        options = {"rate": data.rate, "whole_words": data.whole_words, "seed": seed}
        return masked_data(
            lines, self.tokenizer, data.token_budget, data.max_length, multiple, **options
        )

    def make_model(self):
        own, length = self.recipe.model, self.recipe.data.max_length
        size = self.tokenizer.vocab_size + 1  # the mask token
        options = own.options | {"vocab_size": size, "max_length": length, "head": "mlm"}
        return create_model(own.name, own.variant, **options)

    def evaluator(self, model):
        data = self.mask(self.lines["validation"])
        return MaskedLanguageModelEvaluator(model, self.tokenizer, data, self.recipe.eval_batches)

    def pipeline(self, model, **options):
        raise ValueError(
            f"a {self.noun} cannot be used by itself; fine-tune it: "
            "tfx-transformer train classify_text --weights FOLDER"
        )

    def test(self, run, data, **options):
        refuse(self.noun, options)
        check_one_source(self.noun, data)
        text = load_text(*data) if data else read_splits(self.recipe.data)["test"]
        metrics = TokenMetrics(run.model, self.mask(text.split("\n")))
        metrics(1)  # traces
        scores, seconds = timed(metrics)
        scores["masked_tokens"] = scores.pop("tokens")
        return scores | {"masked_tokens_per_second": scores["masked_tokens"] / seconds}


TASK = MaskedLanguageModelTask


class MaskedLanguageModelEvaluator(Evaluator):
    """Accuracy and perplexity of masked tokens; always the same ones of the validation set.

    Args:
        model: the model that is trained.
        tokenizer: of the texts.
        data: masked batches of the validation set.
        batches: number of batches to use at each evaluation.
    """

    def __init__(self, model, tokenizer, data, batches: int):
        self.model, self.batches, self.metrics = model, batches, TokenMetrics(model, data)
        self.pieces = [*tokenizer.pieces, "[MASK]"]
        inputs, self.targets, _ = next(data.dataset().as_numpy_iterator())
        self.inputs = {name: rows[:SAMPLES] for name, rows in inputs.items()}

    def whole_metric(self):
        return self.metrics()["accuracy"]

    def evaluate(self):
        scores, samples = self.metrics(self.batches), self.samples()
        scores.pop("tokens")
        summary = (
            f"accuracy {scores['accuracy']:.2f} % · perplexity {scores['perplexity']:.2f}\n"
            + "\n".join(samples[:3])
        )
        return Evaluation(scores, summary, "\n".join(samples))

    def samples(self) -> list[str]:
        """Rows with their masks, the masked tokens, and the predicted ones."""
        predicted = np.asarray(self.model(self.inputs, training=False)).argmax(axis=-1)
        lines, name = [], self.pieces.__getitem__
        for row, target, guess in zip(self.inputs["tokens"], self.targets, predicted, strict=False):
            is_masked = target != PAD
            lines.append(
                f"text       {' '.join(map(name, row[row != PAD]))}\n"
                f"masked     {' '.join(map(name, target[is_masked]))}\n"
                f"model      {' '.join(map(name, guess[is_masked]))}\n"
            )
        return lines
