"""Translation as a task: its data, its model, and how good it is during a run and after it."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.data import (
    Pairs,
    Tokenizer,
    evaluation_data,
    load_pairs,
    train_tokenizer,
    training_data,
)
from tfx_transformer.lines import translate_lines
from tfx_transformer.losses import TokenCrossentropy
from tfx_transformer.metrics import perplexity, translation_scores
from tfx_transformer.models import create_model
from tfx_transformer.train.folder import SIDES, TranslateRun, load_tokenizers
from tfx_transformer.train.recipe import TranslateData, TranslateRecipe
from tfx_transformer.train.searching import Search
from tfx_transformer.translator import Translator


class Translation:
    """What `train` asks of a task; made from a recipe, it reads the data.

    Args:
        recipe: of the run.
    """

    metric, unit = "bleu", "tokens"

    def __init__(self, recipe: TranslateRecipe):
        self.recipe = recipe
        splits = ("train", "validation", "test")
        self.pairs = {split: load_split(recipe.data, split) for split in splits}
        self.loss = TokenCrossentropy(recipe.label_smoothing)

    def prepare(self, folder: Path, replicas: int) -> None:
        """Trains the tokenizers, or reads them from the folder, and makes the batches."""
        recipe = self.recipe
        self.tokenizers = make_tokenizers(recipe.data, self.pairs["train"], folder / "tokenizer")
        self.data = training_data(
            self.pairs["train"],
            *self.tokenizers,
            token_budget=recipe.data.token_budget,
            max_length=recipe.data.max_length,
            multiple=replicas,
            seed=recipe.seed,
            nbest=recipe.data.nbest,
        )
        self.units_per_batch = self.data.report.target_tokens / self.data.steps_per_epoch
        print(self.pairs["train"], self.data.report, sep="\n")

    def make_model(self):
        return make_model(self.recipe, self.tokenizers)

    def batches(self, done: int) -> tf.data.Dataset:
        """The batches from number `done` on."""
        return self.data.stream(*divmod(done, self.data.steps_per_epoch))

    def judge(self, model) -> "Judge":
        return Judge(model, self.tokenizers, self.pairs["validation"], self.recipe)


def make_tokenizers(data: TranslateData, pairs: Pairs, folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of the source and of the target; trained at the first call, read from the folder later."""
    paths = [folder / f"{side}.model" for side in SIDES]
    if not all(path.exists() for path in paths):
        texts = [[*pairs.source, *pairs.target]] if data.joint else [pairs.source, pairs.target]
        made = [train_tokenizer(text, data.vocab_size, kind=data.tokenizer) for text in texts]
        folder.mkdir(parents=True, exist_ok=True)
        for path, tokenizer in zip(paths, (made[0], made[-1]), strict=True):
            tokenizer.save(path)
    return load_tokenizers(folder)


def make_model(recipe: TranslateRecipe, tokenizers):
    """The recipe's model, built."""
    source_size, target_size = (tokenizer.vocab_size for tokenizer in tokenizers)
    options = recipe.model.overrides() | {"vocab_size": target_size}
    if not recipe.data.joint:
        options["source_vocab_size"] = source_size
    model = create_model(recipe.model.name, recipe.model.variant, **options)
    model.build({"source": (None, None), "target": (None, None)})
    return model


def load_split(data: TranslateData, split: str = "test") -> Pairs:
    """One of train, validation and test; a source that has splits serves for those not named."""
    if not data.train:
        raise ValueError("data.train must name a source; see --help")
    spec = getattr(data, split) or data.train
    spec = spec[0] if len(spec) == 1 else list(spec)
    has_splits = isinstance(spec, str) and spec.startswith(("tfds:", "embedded:"))
    if split != "train" and not getattr(data, split) and not has_splits:
        raise ValueError(f"data.{split} must name a source: files have no splits of their own")
    return load_pairs(spec, split if has_splits else "train")


class Judge:
    """Scores a model while it trains, on the first `eval_sentences` of the validation set.

    Args:
        model: the one that is trained.
        tokenizers: of source and target.
        pairs: the validation set.
        recipe: of the run.
    """

    def __init__(self, model, tokenizers, pairs: Pairs, recipe: TranslateRecipe):
        count = min(recipe.eval_sentences, len(pairs))
        self.source, self.target = pairs.source[:count], pairs.target[:count]
        source, target = tokenizers
        self.greedy = Translator(model, source, target, "greedy", recipe.data.max_length)
        self.perplexity = perplexity_meter(model, recipe.data, tokenizers)
        self.pairs = pairs

    def whole(self) -> float:
        """BLEU of the whole validation set: some hundred sentences are too few to choose by."""
        return translation_scores(self.greedy(self.pairs.source), self.pairs.target)["bleu"]

    def __call__(self, step: int, samples: Path) -> dict[str, float]:
        """BLEU, chrF and perplexity; writes all samples to a file and shows three of them."""
        hypotheses = self.greedy(self.source)
        scores = translation_scores(hypotheses, self.target)
        scores["perplexity"] = self.perplexity(self.pairs)
        lines = [
            f"source     {source}\nreference  {target}\nmodel      {hypothesis}\n"
            for source, target, hypothesis in zip(self.source, self.target, hypotheses, strict=True)
        ]
        samples.parent.mkdir(exist_ok=True)
        samples.with_suffix(".txt").write_text("\n".join(lines))
        print(
            f"step {step:,}: BLEU {scores['bleu']:.2f} · chrF {scores['chrf']:.1f} · "
            f"perplexity {scores['perplexity']:.2f}\n" + "\n".join(lines[:3])
        )
        scores.pop("signature")
        return scores


def perplexity_meter(model, data: TranslateData, tokenizers):
    """A function from pairs to the perplexity of their targets, over real tokens.

    Traced once for all shapes, so make it once for a model.
    """
    source, target = tokenizers
    loss = TokenCrossentropy(reduction=None)
    ids = tf.TensorSpec([None, None], tf.int32)
    weights = tf.TensorSpec([None, None], tf.float32)

    @tf.function(input_signature=[{"source": ids, "target": ids}, ids, weights], autograph=False)
    def nats(inputs, targets, weights):
        losses = loss(targets, model(inputs, training=False))
        return tf.reduce_sum(losses * weights), tf.reduce_sum(weights)

    def measure(pairs: Pairs) -> float:
        budget, length = data.token_budget, data.max_length
        batches = evaluation_data(pairs, source, target, token_budget=budget, max_length=length)
        sums = np.sum([[float(x) for x in nats(*batch)] for batch in batches.dataset()], axis=0)
        return perplexity(-sums[0], sums[1])

    return measure


def translation_test(run: TranslateRun, data: tuple[str, ...], search: Search) -> dict[str, Any]:
    """Scores of a run on its test set, or on other data."""
    own = run.recipe.data
    pairs = load_split(dataclasses.replace(own, test=data or own.test))
    lines = translate_lines(run.translator(search).translate, pairs.source)
    start = time.perf_counter()
    found = list(tqdm(lines, "translating", len(pairs), disable=None, unit=" lines"))
    seconds = time.perf_counter() - start
    scores = translation_scores([translation.text for translation in found], pairs.target)
    scores["perplexity"] = perplexity_meter(run.model, own, run.tokenizers)(pairs)
    scores["sentences"] = len(pairs)
    scores["tokens_per_second"] = sum(len(t.pieces) for t in found) / seconds
    return scores
