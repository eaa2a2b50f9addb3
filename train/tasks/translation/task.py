"""Translation as a task: data, model, evaluation and pipeline."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.convert.marian import is_marian, load_marian, read_config, read_decoder
from tfx_transformer.data import (
    Pairs,
    Tokenizer,
    evaluation_data,
    load_pairs,
    train_tokenizer,
    training_data,
)
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Translator
from tfx_transformer.runtime import graph
from tfx_transformer.train.options import DecodingOptions, decoder_spec
from tfx_transformer.train.tasks.base import Evaluation, Evaluator, Task, timed
from tfx_transformer.train.tasks.translation import TranslationData
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.training.metrics import perplexity, translation_scores

SIDES = ("source", "target")


class TranslationTask(Task):
    """Translation between two languages."""

    noun, kind = "translator", "translator"
    metric, unit = "bleu", "tokens"

    def load_data(self):
        splits = ("train", "validation", "test")
        self.pairs = {split: load_split(self.recipe.data, split) for split in splits}
        self.loss = TokenCrossentropy(self.recipe.label_smoothing, reduction="sum")

    def prepare(self, folder, replicas):
        recipe = self.recipe
        make_tokenizers(recipe.data, self.pairs["train"], folder / "tokenizer")
        self.restore(folder)
        self.data = training_data(
            self.pairs["train"],
            *self.tokenizers,
            token_budget=recipe.data.token_budget,
            max_length=recipe.data.max_length,
            multiple=replicas,
            seed=recipe.seed,
            n_best=recipe.data.n_best,
        )
        self.units_per_batch = self.data.report.target_tokens / self.data.steps_per_epoch
        print(self.pairs["train"], self.data.report, sep="\n")

    def restore(self, folder):
        source, target = (Tokenizer.load(folder / f"tokenizer/{side}.model") for side in SIDES)
        is_shared = source.model == target.model
        self.tokenizers = (source, source if is_shared else target)

    def make_model(self):
        own, (source, target) = self.recipe.model, self.tokenizers
        sizes = {"vocab_size": target.vocab_size}
        if not self.recipe.data.joint:
            sizes["source_vocab_size"] = source.vocab_size
        return create_model(own.name, own.variant, **own.options | sizes)

    def evaluator(self, model):
        translator = Translator(model, *self.tokenizers, "greedy", self.recipe.data.max_length)
        measure = perplexity_of(model, self.recipe.data, self.tokenizers)
        count = self.recipe.eval_sentences
        return TranslationEvaluator(translator, measure, self.pairs["validation"], count)

    def pipeline(self, model, max_length=None, jit_compile=False, **decoding):
        spec = decoder_spec(self.recipe.decoding, **decoding)
        length = max_length or self.recipe.data.max_length
        return Translator(model, *self.tokenizers, spec, length, jit_compile)

    @classmethod
    def from_checkpoint(cls, folder, max_length=None, jit_compile=False, **decoding):
        """A Marian model of Hugging Face."""
        if not is_marian(folder):
            return None
        own = DecodingOptions(**read_decoder(read_config(folder)))
        return load_marian(folder, decoder_spec(own, **decoding), max_length, jit_compile)

    def test(self, run, data, **options):
        own = self.recipe.data
        pairs = load_split(dataclasses.replace(own, test=tuple(data) or own.test))
        results = run.pipeline(**options).results(pairs.source)
        bar = tqdm(results, "translating", len(pairs), disable=None, unit=" sentences")
        found, seconds = timed(lambda: list(bar))
        return translation_scores([result.text for result in found], pairs.target) | {
            "perplexity": perplexity_of(run.model, own, self.tokenizers)(pairs),
            "sentences": len(pairs),
            "tokens_per_second": sum(len(result.pieces) for result in found) / seconds,
        }

    def compare(self, runs, to):
        from tfx_transformer.train.tasks.translation.compare import compare

        return compare(runs, to)


TASK = TranslationTask


def load_split(data: TranslationData, split: str = "test") -> Pairs:
    """One of train, validation and test; a source with splits is used for those not named."""
    if not data.train:
        raise ValueError("data.train must name a source; see --help")
    spec = getattr(data, split) or data.train
    spec = spec[0] if len(spec) == 1 else list(spec)
    has_splits = isinstance(spec, str) and spec.startswith(("tfds:", "embedded:"))
    if split != "train" and not getattr(data, split) and not has_splits:
        raise ValueError(f"data.{split} must name a source: files have no splits of their own")
    return load_pairs(spec, split if has_splits else "train")


def make_tokenizers(data: TranslationData, pairs: Pairs, folder: Path) -> None:
    """Trains the tokenizers of source and target, unless the folder has them."""
    paths = [folder / f"{side}.model" for side in SIDES]
    if not all(path.exists() for path in paths):
        texts = [[*pairs.source, *pairs.target]] if data.joint else [pairs.source, pairs.target]
        made = [train_tokenizer(text, data.vocab_size, kind=data.tokenizer) for text in texts]
        folder.mkdir(parents=True, exist_ok=True)
        for path, tokenizer in zip(paths, (made[0], made[-1]), strict=True):
            tokenizer.save(path)


class TranslationEvaluator(Evaluator):
    """BLEU, chrF and perplexity on the validation set.

    Args:
        translator: with the model that is trained.
        measure_perplexity: from `perplexity_of`.
        pairs: the validation set.
        count: number of sentences to translate at each evaluation.
    """

    def __init__(self, translator: Translator, measure_perplexity: Callable, pairs: Pairs, count):
        self.translator, self.pairs = translator, pairs
        self.measure_perplexity, self.count = measure_perplexity, min(count, len(pairs))

    def whole_metric(self):
        return translation_scores(self.translator(self.pairs.source), self.pairs.target)["bleu"]

    def evaluate(self):
        sources, targets = self.pairs.source[: self.count], self.pairs.target[: self.count]
        hypotheses = self.translator(sources)
        scores = translation_scores(hypotheses, targets)
        scores.pop("signature")
        scores["perplexity"] = self.measure_perplexity(self.pairs)
        samples = [
            f"source     {source}\nreference  {target}\nmodel      {hypothesis}\n"
            for source, target, hypothesis in zip(sources, targets, hypotheses, strict=True)
        ]
        summary = (
            f"BLEU {scores['bleu']:.2f} · chrF {scores['chrf']:.1f} · "
            f"perplexity {scores['perplexity']:.2f}\n" + "\n".join(samples[:3])
        )
        return Evaluation(scores, summary, "\n".join(samples))


def perplexity_of(model, data: TranslationData, tokenizers) -> Callable[[Pairs], float]:
    """A function from pairs to the perplexity of their targets, over real tokens; traced once."""
    loss = TokenCrossentropy(reduction=None)
    ids = tf.TensorSpec([None, None], tf.int32)

    def sums(inputs, targets, weights):
        losses = loss(targets, model(inputs, training=False))
        return tf.reduce_sum(losses * weights), tf.reduce_sum(weights)

    traced = graph(sums, {"source": ids, "target": ids}, ids, tf.TensorSpec([None, None]))

    def measure(pairs: Pairs) -> float:
        sizes = {"token_budget": data.token_budget, "max_length": data.max_length}
        batches = evaluation_data(pairs, *tokenizers, **sizes).dataset()
        nats, tokens = np.sum([[float(x) for x in traced(*batch)] for batch in batches], axis=0)
        return perplexity(-nats, tokens)

    return measure
