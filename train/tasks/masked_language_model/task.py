"""Masked language modeling as a task: data, model and evaluation."""

import functools

import numpy as np

from tfx_transformer.data import PAD
from tfx_transformer.data.text.masking import MaskedBatches
from tfx_transformer.train.tasks.text import PlainTextTask, TokenEvaluator, sentence_tokenizer

SAMPLES = 20  # rows whose predictions are shown


class MaskedLanguageModelTask(PlainTextTask):
    """Prediction of masked tokens, as pretraining for other tasks."""

    noun, metric, unit = "masked language model", "accuracy", "tokens"

    def prepare(self, folder):
        data, text = self.recipe.data, self.texts["train"]
        self.tokenizer = sentence_tokenizer(data, text.split("\n"), folder)
        self.data = self.evaluation_data(text, self.recipe.seed)
        self.units_per_batch = self.data.lengths.sum() / self.data.steps_per_epoch
        print(f"{data}: {self.data}")

    def evaluation_data(self, text, seed=0):
        """Batches of lines with some of their tokens masked, for a seed always the same ones."""
        data, lines = self.recipe.data, text.split("\n")
        options = {"rate": data.rate, "whole_words": data.whole_words, "seed": seed}
        return MaskedBatches(lines, self.tokenizer, data.token_budget, data.max_length, **options)

    def make_model(self):
        size = self.tokenizer.vocab_size + 1  # the mask token
        length = self.recipe.data.max_length
        return self.create_model(vocab_size=size, max_length=length, head="mlm")

    def evaluator(self, model):
        data, pieces = self.evaluation_data(self.texts["validation"]), self.tokenizer.pieces
        inputs, targets, _ = next(data.dataset().as_numpy_iterator())
        first = {name: rows[:SAMPLES] for name, rows in inputs.items()}
        sample = functools.partial(show_predictions, model, first, targets, [*pieces, "[MASK]"])
        return TokenEvaluator(self, model, sample, shown=3)

    def pipeline(self, model, **options):
        raise ValueError(
            f"a {self.noun} cannot be used by itself; fine-tune it: "
            "tfx-transformer train classify_text --weights FOLDER"
        )

    def test(self, run, data, **options):
        scores, seconds, _ = self.measure(run, data, options)
        scores["masked_tokens"] = scores.pop("tokens")
        return scores | {"masked_tokens_per_second": scores["masked_tokens"] / seconds}


TASK = MaskedLanguageModelTask


def show_predictions(model, inputs, targets, pieces: list[str]) -> list[str]:
    """Rows with their masks, the masked tokens, and the predicted ones."""
    predicted = np.asarray(model(inputs, training=False)).argmax(axis=-1)
    samples, name = [], pieces.__getitem__
    for row, target, guess in zip(inputs["tokens"], targets, predicted, strict=False):
        is_masked = target != PAD
        samples.append(
            f"text       {' '.join(map(name, row[row != PAD]))}\n"
            f"masked     {' '.join(map(name, target[is_masked]))}\n"
            f"model      {' '.join(map(name, guess[is_masked]))}\n"
        )
    return samples
