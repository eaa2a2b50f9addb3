"""Translation as a task: data, model, evaluation and pipeline."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfx_transformer.convert.keras_hub import find_kind, load_keras_hub
from tfx_transformer.convert.marian import is_marian, load_marian, read_config, read_decoder
from tfx_transformer.data import PairBatches, Pairs, Tokenizer, load_pairs, train_tokenizer
from tfx_transformer.data.splits import assign_split
from tfx_transformer.data.stored import Texts, cached_array
from tfx_transformer.data.text.tokenizer import MAX_SENTENCES, evenly_spaced
from tfx_transformer.pipelines import Translator
from tfx_transformer.train.options import DecodingOptions, decoder_spec
from tfx_transformer.train.tasks.base import SPLITS, Evaluation, Evaluator, Task, timed
from tfx_transformer.train.tasks.translation import TranslationData
from tfx_transformer.train.tasks.translation.sizes import propose_sizes
from tfx_transformer.training.metrics import translation_scores
from tfx_transformer.training.token_metrics import TokenMetrics

SIDES = ("source", "target")


class TranslationTask(Task):
    """Translation between two languages."""

    noun, kind = "translator", "translator"
    metric, unit, sized_model = "bleu", "tokens", "transformer"

    def load_data(self):
        if not self.recipe.data.joint and self.recipe.model.options.get("tie") == "all":
            raise ValueError("model.tie=all needs one vocabulary; got data.joint=False")
        own = self.recipe.data
        cache = Path(own.cache) if own.cache else self.cache
        self.pairs = {split: load_split(own, split, cache) for split in SPLITS}
        counts = [f"{len(self.pairs[x]):,} pairs for {x}" for x in held_out(self.recipe.data)]
        if counts:
            print(f"held out: {', '.join(counts)}", flush=True)

    def prepare(self, folder):
        recipe = self.recipe
        make_tokenizers(recipe.data, self.pairs["train"], folder / "tokenizer")
        self.restore(folder)
        self.data = PairBatches(
            self.pairs["train"],
            *self.tokenizers,
            token_budget=recipe.data.token_budget,
            max_length=recipe.data.max_length,
            seed=recipe.seed,
            n_best=recipe.data.n_best,
            noise=recipe.data.noise,
        )
        self.units_per_batch = self.data.num_tokens[1] / self.data.steps_per_epoch
        print(self.pairs["train"], self.data, sep="\n")

    def restore(self, folder):
        source, target = (Tokenizer.load(folder / f"tokenizer/{side}.model") for side in SIDES)
        is_shared = source.model == target.model
        self.tokenizers = (source, source if is_shared else target)

    def make_model(self):
        source, target = self.tokenizers
        own = {} if self.recipe.data.joint else {"source_vocab_size": source.vocab_size}
        return self.create_model(vocab_size=target.vocab_size, **own)

    def token_metrics(self, model, pairs: Pairs) -> TokenMetrics:
        """Scores of the real tokens of all targets."""
        data = self.recipe.data
        sizes = {"token_budget": data.token_budget, "max_length": data.max_length}
        batches = PairBatches(pairs, *self.tokenizers, **sizes, seed=None)
        return TokenMetrics(model, batches, self.workers)

    def sizes(self):
        return propose_sizes(self.recipe, len(self.pairs["train"]))

    @property
    def test_ratio(self):
        count = min(self.recipe.eval_sentences, len(self.pairs["validation"]))
        return 2.5 * len(self.pairs["test"]) / count  # a beam takes longer than greedy decoding

    def evaluation_seconds(self, model):
        """The untrained model does not end its sentences, so the length is limited here."""
        recipe, pairs = self.recipe, self.pairs["validation"]
        count = min(64, len(pairs))
        length = int(1.3 * self.data.num_tokens[1] / len(self.pairs["train"])) + 2
        seconds = []
        for kind in ("greedy", "beam"):
            spec = decoder_spec(recipe.decoding) if kind == "beam" else "greedy"
            translator = Translator(model, *self.tokenizers, spec, length)
            translator(pairs.source[:2])  # traces
            seconds.append(timed(lambda t=translator: t(pairs.source[:count]))[1] / count)
        greedy, beam = seconds
        metrics = self.token_metrics(model, pairs)
        metrics(1)  # traces
        _, perplexity = timed(metrics)
        whole = 2 * len(pairs) * greedy if recipe.average > 1 else 0.0  # to choose the weights
        shown = min(recipe.eval_sentences, len(pairs))
        test = len(self.pairs["test"]) * (beam + perplexity / len(pairs))
        return shown * greedy + perplexity, test + whole

    def describe_plan(self):
        own, pairs = self.recipe.model.options, self.pairs["train"]
        tokens = self.units_per_batch * self.data.steps_per_epoch
        depth = f"{own['depth']} + {own['depth']} blocks of {own['dim']}" if "dim" in own else ""
        count = f"{tokens / 1e6:.1f} M" if tokens >= 1e6 else f"{tokens:,.0f}"
        return f"{len(pairs):,} pairs, {count} target tokens → {depth}"

    def evaluator(self, model):
        pairs, count = self.pairs["validation"], self.recipe.eval_sentences
        translator = Translator(model, *self.tokenizers, "greedy", self.recipe.data.max_length)
        return TranslationEvaluator(translator, self.token_metrics(model, pairs), pairs, count)

    def pipeline(self, model, max_length=None, jit_compile=False, **decoding):
        spec = decoder_spec(self.recipe.decoding, **decoding)
        length = max_length or self.recipe.data.max_length
        return Translator(model, *self.tokenizers, spec, length, jit_compile)

    @classmethod
    def from_checkpoint(cls, folder, max_length=None, jit_compile=False, **decoding):
        """A Marian model of Hugging Face, or a Seq2SeqLM of keras-hub."""
        if find_kind(folder) == "Seq2SeqLM":
            spec = decoder_spec(DecodingOptions(kind="beam"), **decoding)
            return load_keras_hub(folder, spec, max_length, jit_compile)
        if not is_marian(folder):
            return None
        own = DecodingOptions(**read_decoder(read_config(folder)))
        return load_marian(folder, decoder_spec(own, **decoding), max_length, jit_compile)

    def test(self, run, data, **options):
        own = self.recipe.data
        pairs = load_split(dataclasses.replace(own, test=tuple(data) or own.test))
        translator = run.pipeline(**options)

        def translate(sources):
            found = translator.results(sources, progress="translating")
            return [(result.text, len(result.pieces)) for result in found]

        found, seconds = timed(lambda: self.workers.divide(translate, pairs.source, to_json=True))
        texts, lengths = zip(*found, strict=True)
        return translation_scores(list(texts), pairs.target) | {
            "perplexity": self.token_metrics(run.model, pairs)()["perplexity"],
            "sentences": len(pairs),
            "tokens_per_second": sum(lengths) / seconds,
        }

    def compare(self, runs, to):
        from tfx_transformer.train.tasks.translation.compare import compare

        return compare(runs, to)


TASK = TranslationTask


def load_split(data: TranslationData, split: str = "test", cache: Path | None = None) -> Pairs:
    """One of train, validation and test; a source with splits is used for those not named.

    Those of the training files are stored in the cache, if there is one.
    """
    spec = getattr(data, split) or data.train
    where = split if has_own_splits(spec) else "train"
    cache = cache if spec == data.train and where == "train" else None
    pairs = load_pairs(spec[0] if len(spec) == 1 else list(spec), where, cache=cache)
    missing = held_out(data)
    if not missing or (split != "train" and split not in missing):
        return pairs
    return hold_out(pairs, split, missing)


def has_own_splits(spec: tuple[str, ...]) -> bool:
    return len(spec) == 1 and spec[0].startswith(("tfds:", "embedded:"))


def held_out(data: TranslationData) -> list[str]:
    """The splits that are parts of the training files."""
    if has_own_splits(data.train):
        return []
    return [name for name in SPLITS[1:] if not getattr(data, name)]


def hold_out(pairs: Pairs, split: str, missing: list[str]) -> Pairs:
    """The pairs of a split, where those `missing` are held out from files of training pairs.

    Each gets a tenth of the pairs, at most about 1,000, by a hash of the source: equal sources are
    in the same split.
    """
    parts = max(10, len(pairs) // 1000)

    def assign():
        return np.array([SPLITS.index(assign_split(x, parts)) for x in pairs.source], "uint8")

    stored = isinstance(pairs.source, Texts) and isinstance(pairs.target, Texts)
    found = cached_array(pairs.source.path.parent, "splits", assign) if stored else assign()
    held = [SPLITS.index(x) for x in missing]
    rows = np.flatnonzero(
        ~np.isin(found, held) if split == "train" else found == SPLITS.index(split)
    )
    if not len(rows):
        raise ValueError(f"--data.{split} must name a source: {pairs.name} is too small to split")
    name = f"{pairs.name} ({split})"
    if stored and split == "train":
        return Pairs(name, pairs.source.select(rows), pairs.target.select(rows), pairs.skipped)
    source, target = ([side[i] for i in rows.tolist()] for side in (pairs.source, pairs.target))
    return Pairs(name, source, target, pairs.skipped)


def make_tokenizers(data: TranslationData, pairs: Pairs, folder: Path) -> None:
    """Trains the tokenizers of source and target, unless the folder has them."""
    paths = [folder / f"{side}.model" for side in SIDES]
    if not all(path.exists() for path in paths):
        count = MAX_SENTENCES // (1 + data.joint)
        texts = [evenly_spaced(side, count) for side in (pairs.source, pairs.target)]
        texts = [texts[0] + texts[1]] if data.joint else texts
        options = {"kind": data.tokenizer, "character_coverage": data.character_coverage}
        made = [train_tokenizer(text, data.vocab_size, **options) for text in texts]
        folder.mkdir(parents=True, exist_ok=True)
        for path, tokenizer in zip(paths, (made[0], made[-1]), strict=True):
            tokenizer.save(path)


@dataclass
class TranslationEvaluator(Evaluator):
    """BLEU, chrF and perplexity on the validation set."""

    translator: Translator
    metrics: TokenMetrics
    pairs: Pairs
    count: int  # sentences to translate at each evaluation

    def evaluate(self, whole=False):
        count = None if whole else self.count
        sources, targets = self.pairs.source[:count], self.pairs.target[:count]
        hypotheses = self.metrics.workers.divide(self.translator, sources, to_json=True)
        scores = translation_scores(hypotheses, targets)
        scores.pop("signature")
        scores["perplexity"] = self.metrics()["perplexity"]
        samples = [
            f"source     {source}\nreference  {target}\nmodel      {hypothesis}\n"
            for source, target, hypothesis in zip(sources, targets, hypotheses, strict=True)
        ]
        summary = (
            f"BLEU {scores['bleu']:.2f} · chrF {scores['chrf']:.1f} · "
            f"perplexity {scores['perplexity']:.2f}"
        )
        return Evaluation(scores, summary, samples)
