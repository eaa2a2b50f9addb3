"""How good a translator is: during a run, on its validation set, and after it, on its test set."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.data import Pairs, evaluation_data, load_pairs
from tfx_transformer.lines import translate_lines
from tfx_transformer.losses import TokenCrossentropy
from tfx_transformer.metrics import perplexity, translation_scores
from tfx_transformer.train.folder import load_run
from tfx_transformer.train.recipe import Data, Recipe, Search
from tfx_transformer.translator import Translator


def evaluate(folder, data: tuple[str, ...] = (), search: Search | None = None) -> dict[str, Any]:
    """Scores a run on its test set, or on other data.

    What the recipe itself asks for (its test set, its decoder) is also written to `test.json`.
    """
    run, search = load_run(folder), search or Search()
    pairs = load_split(dataclasses.replace(run.recipe.data, test=data or run.recipe.data.test))
    lines = translate_lines(run.translator(search).translate, pairs.source)
    start = time.perf_counter()
    found = list(tqdm(lines, "translating", len(pairs), disable=None, unit=" lines"))
    seconds = time.perf_counter() - start
    scores = translation_scores([translation.text for translation in found], pairs.target)
    scores["perplexity"] = perplexity_meter(run.model, run.recipe.data, run.tokenizers)(pairs)
    scores["sentences"] = len(pairs)
    scores["tokens_per_second"] = sum(len(t.pieces) for t in found) / seconds
    if not data and search == Search():
        (run.folder / "test.json").write_text(json.dumps(scores, indent=2) + "\n")
    return scores


def load_split(data: Data, split: str = "test") -> Pairs:
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

    def __init__(self, model, tokenizers, pairs: Pairs, recipe: Recipe):
        count = min(recipe.eval_sentences, len(pairs))
        self.source, self.target = pairs.source[:count], pairs.target[:count]
        source, target = tokenizers
        self.greedy = Translator(model, source, target, "greedy", recipe.data.max_length)
        self.perplexity = perplexity_meter(model, recipe.data, tokenizers)
        self.pairs = pairs

    def bleu(self) -> float:
        """Of the whole validation set: some hundred sentences are too few to choose by."""
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
        samples.write_text("\n".join(lines))
        print(
            f"step {step:,}: BLEU {scores['bleu']:.2f} · chrF {scores['chrf']:.1f} · "
            f"perplexity {scores['perplexity']:.2f}\n" + "\n".join(lines[:3])
        )
        scores.pop("signature")
        return scores


def perplexity_meter(model, data: Data, tokenizers):
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
