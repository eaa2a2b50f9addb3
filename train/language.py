"""A language model as a task: its data, its model, and how good it is."""

import math
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_transformer.data import Tokenizer
from tfx_transformer.data.language import language_data, language_tokenizer, load_text
from tfx_transformer.generator import Generator
from tfx_transformer.losses import TokenCrossentropy
from tfx_transformer.models import create_model
from tfx_transformer.strategy import check_replicas
from tfx_transformer.train.folder import TEXT, LanguageRun, stored_tokenizer
from tfx_transformer.train.text_recipe import LanguageData, LanguageRecipe
from tfx_transformer.train.text_splits import read_splits
from tfx_transformer.train.token_meter import TokenMeter

SAMPLES, PROMPT = 3, 24  # texts that are continued at each evaluation, and characters before them


class Language:
    """What `train` asks of a task; made from a recipe, it reads the data.

    Args:
        recipe: of the run.
    """

    metric, unit = "log_prob", "tokens"

    def __init__(self, recipe: LanguageRecipe):
        self.recipe, self.texts = recipe, read_splits(recipe.data)
        self.loss = TokenCrossentropy(recipe.label_smoothing)

    def prepare(self, folder: Path, replicas: int) -> None:
        """Trains the tokenizer, or reads it from the folder, and makes the batches."""
        own = self.recipe.data
        self.tokenizer = make_tokenizer(own, self.texts["train"], folder / "tokenizer")
        self.data = language_data(
            self.texts["train"], self.tokenizer, own.max_length, own.batch_size, self.recipe.seed
        )
        check_replicas(replicas, self.data.batch_size)
        self.units_per_batch = self.data.batch_size * own.max_length
        print(f"{own}: {self.data}")

    def make_model(self):
        return make_model(self.recipe, self.tokenizer)

    def batches(self, done: int) -> tf.data.Dataset:
        """The batches from number `done` on."""
        return self.data.stream(*divmod(done, self.data.steps_per_epoch))

    def judge(self, model) -> "Judge":
        return Judge(model, self.tokenizer, self.texts["validation"], self.recipe)


def make_tokenizer(data: LanguageData, text: str, folder: Path) -> Tokenizer:
    """Trained at the first call, read from the folder later."""
    size = None if data.tokenizer == "char" else data.vocab_size
    return stored_tokenizer(folder / TEXT, lambda: language_tokenizer(text, data.tokenizer, size))


def make_model(recipe: LanguageRecipe, tokenizer):
    """The recipe's model, built; it has as many positions as a window has tokens."""
    own = recipe.model
    options = {"vocab_size": tokenizer.vocab_size, "max_length": recipe.data.max_length}
    model = create_model(own.name, own.variant, **own.overrides() | options)
    model.build((None, None))
    return model


def make_meter(model, tokenizer, text: str, data: LanguageData) -> TokenMeter:
    """Of all tokens of a text, in windows that know nothing of each other."""
    own = language_data(text, tokenizer, data.max_length, data.batch_size, seed=None)
    return TokenMeter(model, own)


class Judge:
    """Scores a model while it trains, on the first batches of the validation set.

    Args:
        model: the one that is trained.
        tokenizer: of the text.
        text: the validation set.
        recipe: of the run.
    """

    def __init__(self, model, tokenizer, text: str, recipe: LanguageRecipe):
        self.recipe, self.meter = recipe, make_meter(model, tokenizer, text, recipe.data)
        places = [len(text) * i // SAMPLES for i in range(SAMPLES)]
        self.prompts = [text[place : place + PROMPT] for place in places]
        decoder = {"kind": "sample", "temperature": 0.8, "seed": recipe.seed}
        self.generator = Generator(model, tokenizer, decoder)

    def whole(self) -> float:
        """The mean log-probability of a token in the whole validation set."""
        return self.meter()["log_prob"]

    def __call__(self, step: int, samples: Path) -> dict[str, float]:
        """Log-probability, perplexity and accuracy; continues some texts into a file."""
        scores = self.meter(self.recipe.eval_batches)
        rests = self.generator(self.prompts)
        texts = [f"{prompt}|{rest}" for prompt, rest in zip(self.prompts, rests, strict=True)]
        samples.parent.mkdir(exist_ok=True)
        samples.with_suffix(".txt").write_text("\n\n".join(texts) + "\n")
        print(
            f"step {step:,}: perplexity {scores['perplexity']:.3f} · "
            f"accuracy {scores['accuracy']:.2f} %\n{texts[0]}\n"
        )
        scores.pop("tokens")
        return scores


def language_test(run: LanguageRun, source: str = "") -> dict[str, Any]:
    """Scores of a run on its test set, or on another text.

    Bits per character compare models of whatever vocabulary. Windows do not overlap: the first
    tokens of each know nothing of what came before, which overlapping windows would spare them.
    """
    own = run.recipe.data
    text = load_text(source) if source else read_splits(own)["test"]
    meter = make_meter(run.model, run.tokenizer, text, own)
    meter(1)  # traced
    start = time.perf_counter()
    scores: dict[str, Any] = meter()
    seconds = time.perf_counter() - start
    scores["bits_per_character"] = -scores["log_prob"] * scores["tokens"] / math.log(2) / len(text)
    return scores | {"characters": len(text), "tokens_per_second": scores["tokens"] / seconds}
