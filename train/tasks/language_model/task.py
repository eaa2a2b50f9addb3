"""Language modeling as a task: data, model, evaluation and pipeline."""

import math

from tfx_transformer.data import Tokenizer
from tfx_transformer.data.text.language import language_data, language_tokenizer, load_text
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Generator
from tfx_transformer.pipelines.streaming import TextStream
from tfx_transformer.train.options import decoder_spec
from tfx_transformer.train.tasks.base import (
    Evaluation,
    Evaluator,
    Task,
    check_one_source,
    refuse,
    timed,
)
from tfx_transformer.train.tasks.language_model import LanguageModelData
from tfx_transformer.train.tasks.text import load_tokenizer, read_splits, stored_tokenizer
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.training.strategy import check_replicas
from tfx_transformer.training.token_metrics import TokenMetrics

SAMPLES, PROMPT_LENGTH = 3, 24  # continuations at each evaluation; characters of their prompts


class LanguageModelTask(Task):
    """Prediction of the next token of a text."""

    noun, kind = "language model", "generator"
    metric, unit = "log_prob", "tokens"

    def load_data(self):
        self.texts = read_splits(self.recipe.data)
        self.loss = TokenCrossentropy(self.recipe.label_smoothing, reduction="sum")

    def prepare(self, folder, replicas):
        data, text = self.recipe.data, self.texts["train"]
        size = None if data.tokenizer == "char" else data.vocab_size
        self.tokenizer = stored_tokenizer(
            folder, lambda: language_tokenizer(text, data.tokenizer, size)
        )
        self.data = language_data(
            text, self.tokenizer, data.max_length, data.batch_size, self.recipe.seed
        )
        check_replicas(replicas, self.data.batch_size)
        self.units_per_batch = self.data.batch_size * data.max_length
        print(f"{data}: {self.data}")

    def restore(self, folder):
        self.tokenizer = load_tokenizer(folder)

    def make_model(self):
        own, length = self.recipe.model, self.recipe.data.max_length
        sizes = {"vocab_size": self.tokenizer.vocab_size, "max_length": length}
        return create_model(own.name, own.variant, **own.options | sizes)

    def evaluator(self, model):
        text, recipe = self.texts["validation"], self.recipe
        metrics = measure_tokens(model, self.tokenizer, text, recipe.data)
        starts = [len(text) * i // SAMPLES for i in range(SAMPLES)]
        prompts = [text[start : start + PROMPT_LENGTH] for start in starts]
        decoder = {"kind": "sample", "temperature": 0.8, "seed": recipe.seed}
        generator = Generator(model, self.tokenizer, decoder)
        return LanguageModelEvaluator(metrics, generator, prompts, recipe.eval_batches)

    def pipeline(self, model, max_length=None, **decoding):
        spec = decoder_spec(self.recipe.decoding, **decoding)
        return Generator(model, self.tokenizer, spec, max_length)

    def stream(self, model, **decoding) -> TextStream:
        """For one text, token by token."""
        return TextStream(model, self.tokenizer, decoder_spec(self.recipe.decoding, **decoding))

    def test(self, run, data, **options):
        """Bits per character compare models of different vocabularies.

        Windows do not overlap: the first tokens of each have little context.
        """
        refuse(self.noun, options)
        check_one_source(self.noun, data)
        text = load_text(*data) if data else read_splits(self.recipe.data)["test"]
        metrics = measure_tokens(run.model, self.tokenizer, text, self.recipe.data)
        metrics(1)  # traces
        scores, seconds = timed(metrics)
        bits = -scores["log_prob"] * scores["tokens"] / math.log(2)
        return scores | {
            "bits_per_character": bits / len(text),
            "characters": len(text),
            "tokens_per_second": scores["tokens"] / seconds,
        }


TASK = LanguageModelTask


def measure_tokens(model, tokenizer: Tokenizer, text: str, data: LanguageModelData) -> TokenMetrics:
    """Scores of all tokens of a text, in windows without a common context."""
    windows = language_data(text, tokenizer, data.max_length, data.batch_size, seed=None)
    return TokenMetrics(model, windows)


class LanguageModelEvaluator(Evaluator):
    """Log-probability, perplexity and accuracy on the first batches of the validation set.

    Args:
        metrics: of the validation set.
        generator: with the model that is trained.
        prompts: texts to continue, as samples.
        batches: number of batches to use at each evaluation.
    """

    def __init__(self, metrics: TokenMetrics, generator: Generator, prompts: list[str], batches):
        self.metrics, self.generator = metrics, generator
        self.prompts, self.batches = prompts, batches

    def whole_metric(self):
        return self.metrics()["log_prob"]

    def evaluate(self):
        scores = self.metrics(self.batches)
        scores.pop("tokens")
        continued = zip(self.prompts, self.generator(self.prompts), strict=True)
        texts = [f"{prompt}|{rest}" for prompt, rest in continued]
        summary = (
            f"perplexity {scores['perplexity']:.3f} · accuracy {scores['accuracy']:.2f} %\n"
            f"{texts[0]}\n"
        )
        return Evaluation(scores, summary, "\n\n".join(texts) + "\n")
