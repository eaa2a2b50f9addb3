"""A translation experiment from files to a trained model, as one function from top to bottom.

The run folder holds `recipe.json versions.json tokenizer/ checkpoints/ samples/ metrics.jsonl` and,
in the end, `model.keras test.json`. Repeating a run goes on from its last checkpoint: the batches
and the random numbers of a step depend on the seed and the step alone.
"""

import contextlib
import dataclasses
import json
import platform
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfx_transformer import __version__
from tfx_transformer.callbacks import Progress, Record, StopAtNaN
from tfx_transformer.checkpoint import Checkpoints, put, values, write
from tfx_transformer.data import (
    Pairs,
    Tokenizer,
    evaluation_data,
    load_pairs,
    train_tokenizer,
    training_data,
)
from tfx_transformer.losses import TokenCrossentropy, share_of_batch
from tfx_transformer.metrics import perplexity, translation_scores
from tfx_transformer.models import create_model
from tfx_transformer.schedules import SCHEDULES
from tfx_transformer.strategy import check_strategy, choose_strategy
from tfx_transformer.train.recipe import Data, Recipe, load_recipe, save_recipe
from tfx_transformer.translator import Translator


def train(recipe: Recipe, folder) -> dict[str, Any]:
    """Runs a recipe in a folder, or goes on with it, and returns the scores on the test set."""
    folder = Path(folder)
    open_folder(recipe, folder)
    keras.utils.set_random_seed(recipe.seed)
    keras.config.set_dtype_policy(recipe.precision)
    record = Record(folder / "metrics.jsonl")

    # data
    pairs = load_splits(recipe.data)
    tokenizers = make_tokenizers(recipe.data, pairs["train"], folder / "tokenizer")
    strategy = choose_strategy(recipe.strategy)
    data = training_data(
        pairs["train"],
        *tokenizers,
        token_budget=recipe.data.token_budget,
        max_length=recipe.data.max_length,
        multiple=strategy.num_replicas_in_sync,
        seed=recipe.seed,
        nbest=recipe.data.nbest,
    )
    print(pairs["train"], data.report, sep="\n")

    # model
    check_strategy(strategy, recipe.optimizer.accumulate, recipe.jit_compile)
    with strategy.scope():
        model = make_model(recipe, tokenizers)
        model.compile(
            make_optimizer(recipe),
            TokenCrossentropy(recipe.label_smoothing),
            jit_compile=recipe.jit_compile,
        )
        model.optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(folder / "checkpoints", keep=max(recipe.average, 2))
    step = checkpoints.restore(model)
    print(f"{recipe.model.name}: {model.count_params():,} parameters; from step {step:,}")

    # updates, each interval closed by an evaluation and a checkpoint
    accumulate = recipe.optimizer.accumulate
    tokens = accumulate * data.report.target_tokens / data.steps_per_epoch
    greedy = Translator(model, *tokenizers, "greedy", recipe.data.max_length)
    meter = perplexity_meter(model, recipe.data, tokenizers)
    while step < recipe.steps and not is_stuck(record, recipe.patience):
        updates = min(recipe.eval_steps - step % recipe.eval_steps, recipe.steps - step)
        start = time.perf_counter()
        history = model.fit(
            batches(data, step * accumulate),
            steps_per_epoch=updates * accumulate,
            shuffle=False,
            verbose=0,
            callbacks=[Progress(recipe.steps, step, tokens / accumulate), StopAtNaN()],
        )
        seconds = time.perf_counter() - start
        step += updates
        with averaged_weights(model, recipe.optimizer.ema):
            scores = validate(greedy, meter, pairs["validation"], recipe, folder, step)
            is_best = scores["bleu"] >= best_bleu(record)
            if is_best:
                write(folder / "checkpoints/best.npz", values(model))
        checkpoints.save(step, model)
        speed = tokens * updates / seconds
        record.add(step, loss=history.history["loss"][-1], tokens_per_second=speed, **scores)

    # the better of the best and the average of the last
    choose_weights(model, checkpoints, greedy, pairs["validation"], recipe, folder)
    model.save(folder / "model.keras")
    return evaluate(folder)


def evaluate(folder, data: tuple[str, ...] = ()) -> dict[str, Any]:
    """Scores a run on its test set, or on other data, with the recipe's decoder."""
    run = load_run(folder)
    pairs = load_splits(dataclasses.replace(run.recipe.data, test=data or run.recipe.data.test))
    translator = run.translator()
    start = time.perf_counter()
    hypotheses = translator(pairs["test"].source)
    seconds = time.perf_counter() - start
    scores = translation_scores(hypotheses, pairs["test"].target)
    meter = perplexity_meter(run.model, run.recipe.data, run.tokenizers)
    scores |= {"perplexity": meter(pairs["test"])}
    tokens = sum(len(ids) for ids in run.tokenizers[1].encode_list(hypotheses))
    scores |= {"sentences": len(hypotheses), "tokens_per_second": tokens / seconds}
    if not data:
        (run.folder / "test.json").write_text(json.dumps(scores, indent=2) + "\n")
    return scores


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    recipe: Recipe
    model: Any
    tokenizers: tuple[Tokenizer, Tokenizer]

    def translator(self, decoder=None, **options) -> Translator:
        """With the recipe's decoder, or another."""
        decoder = decoder or self.recipe.decoding.spec()
        options = {"max_length": self.recipe.data.max_length} | options
        return Translator(self.model, *self.tokenizers, decoder, **options)

    def card(self) -> str:
        """What is to be known of the model, written from its run."""
        scores = json.loads((self.folder / "test.json").read_text())
        lines = [f"# {self.recipe.model.name}, {self.model.count_params():,} parameters", ""]
        lines += [f"Data: {' '.join(self.recipe.data.train)}", "", "Scores on the test set:", ""]
        lines += [f"- {name}: {value}" for name, value in scores.items()]
        recipe = json.dumps(dataclasses.asdict(self.recipe), indent=2)
        return "\n".join([*lines, "", "Recipe:", "", "```json", recipe, "```", ""])


def load_run(folder) -> Run:
    """The recipe, model and tokenizers of a run folder."""
    folder = Path(folder)
    if not (folder / "model.keras").exists():
        raise ValueError(f"{folder} holds no finished run: there is no {folder / 'model.keras'}")
    recipe = load_recipe(folder / "recipe.json")
    model = keras.saving.load_model(folder / "model.keras", compile=False)
    tokenizers = [Tokenizer.load(folder / f"tokenizer/{side}.model") for side in SIDES]
    return Run(folder, recipe, model, (tokenizers[0], tokenizers[1]))


SIDES = ("source", "target")


def open_folder(recipe: Recipe, folder: Path) -> None:
    """Makes the run folder, or checks that it is of the same recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.json"
    if path.exists():
        old, new = dataclasses.asdict(load_recipe(path)), dataclasses.asdict(recipe)
        changed = [name for name in new if old[name] != new[name] and name != "steps"]
        if changed:
            raise ValueError(
                f"{folder} holds a run of another recipe: {', '.join(changed)} changed; "
                "choose another folder, or remove this one"
            )
    save_recipe(recipe, path)
    versions = {"tfx_transformer": __version__, "python": platform.python_version()}
    versions |= {"tensorflow": tf.__version__, "keras": keras.__version__}
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


def load_splits(data: Data) -> dict[str, Pairs]:
    """Train, validation and test; a source that has splits serves for those not named."""
    if not data.train:
        raise ValueError("data.train must name a source; see --help")
    splits = {}
    for split in ("train", "validation", "test"):
        spec = getattr(data, split) or data.train
        spec = spec[0] if len(spec) == 1 else list(spec)
        has_splits = isinstance(spec, str) and spec.startswith(("tfds:", "embedded:"))
        if split != "train" and not getattr(data, split) and not has_splits:
            raise ValueError(f"data.{split} must name a source: files have no splits of their own")
        splits[split] = load_pairs(spec, split if has_splits else "train")
    return splits


def make_tokenizers(data: Data, pairs: Pairs, folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of the source and of the target; trained at the first call, read from the folder later."""
    paths = [folder / f"{side}.model" for side in SIDES]
    if not all(path.exists() for path in paths):
        texts = [[*pairs.source, *pairs.target]] if data.joint else [pairs.source, pairs.target]
        made = [train_tokenizer(text, data.vocab_size, kind=data.tokenizer) for text in texts]
        folder.mkdir(parents=True, exist_ok=True)
        for path, tokenizer in zip(paths, (made[0], made[-1]), strict=True):
            tokenizer.save(path)
    source = Tokenizer.load(paths[0])
    return source, source if data.joint else Tokenizer.load(paths[1])


def make_model(recipe: Recipe, tokenizers):
    """The recipe's model, built."""
    source_size, target_size = (tokenizer.vocab_size for tokenizer in tokenizers)
    options = recipe.model.overrides() | {"vocab_size": target_size}
    if not recipe.data.joint:
        options = {"tie": "output", "source_vocab_size": source_size} | options
    model = create_model(recipe.model.name, recipe.model.variant, **options)
    model.build({"source": (None, None), "target": (None, None)})
    return model


def make_optimizer(recipe: Recipe):
    """Adam or AdamW with the recipe's schedule."""
    own = recipe.optimizer
    schedule = SCHEDULES.make(
        own.schedule,
        learning_rate=own.learning_rate,
        warmup_steps=own.warmup_steps,
        total_steps=recipe.steps,
    )
    kind = {"adam": keras.optimizers.Adam, "adamw": keras.optimizers.AdamW}[own.name]
    return kind(
        schedule,
        beta_2=own.beta_2,
        epsilon=own.epsilon,
        weight_decay=own.weight_decay or None,
        global_clipnorm=own.clip_norm,
        use_ema=own.ema > 0,
        ema_momentum=own.ema or 0.99,
        gradient_accumulation_steps=own.accumulate if own.accumulate > 1 else None,
    )


def batches(data, done: int) -> tf.data.Dataset:
    """The batches from number `done` on, weights divided by their sum over the whole batch."""

    def share(inputs, targets, weights):
        return inputs, targets, share_of_batch(weights)

    epoch, step = divmod(done, data.steps_per_epoch)
    return data.stream(epoch, step).map(share).prefetch(tf.data.AUTOTUNE)


@contextlib.contextmanager
def averaged_weights(model, ema: float):
    """Inside, the model has the moving averages of its weights, if the recipe keeps them."""
    if not ema:
        yield
        return
    averages = model.optimizer._model_variables_moving_average
    weights = model.trainable_variables
    kept = [weight.numpy() for weight in weights]
    for weight, average in zip(weights, averages, strict=True):
        weight.assign(average)
    try:
        yield
    finally:
        for weight, value in zip(weights, kept, strict=True):
            weight.assign(value)


def validate(greedy, meter, pairs: Pairs, recipe: Recipe, folder: Path, step: int):
    """BLEU, chrF and perplexity on the validation set; writes samples and shows three."""
    count = min(recipe.eval_sentences, len(pairs))
    hypotheses = greedy(pairs.source[:count])
    scores = translation_scores(hypotheses, pairs.target[:count])
    scores["perplexity"] = meter(pairs)
    lines = [
        f"source     {source}\nreference  {target}\nmodel      {hypothesis}\n"
        for source, target, hypothesis in zip(pairs.source, pairs.target, hypotheses, strict=False)
    ]
    (folder / "samples").mkdir(exist_ok=True)
    (folder / f"samples/step_{step:08d}.txt").write_text("\n".join(lines))
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

    @tf.function(input_signature=[{"source": ids, "target": ids}, ids, weights])
    def nats(inputs, targets, weights):
        losses = loss(targets, model(inputs, training=False))
        return tf.reduce_sum(losses * weights), tf.reduce_sum(weights)

    def measure(pairs: Pairs) -> float:
        budget, length = data.token_budget, data.max_length
        batches = evaluation_data(pairs, source, target, token_budget=budget, max_length=length)
        sums = np.sum([[float(x) for x in nats(*batch)] for batch in batches.dataset()], axis=0)
        return perplexity(-sums[0], sums[1])

    return measure


def best_bleu(record: Record) -> float:
    return max((line["bleu"] for line in record.read()), default=0.0)


def is_stuck(record: Record, patience: int) -> bool:
    """Whether the last `patience` evaluations brought no better BLEU."""
    scores = [line["bleu"] for line in record.read()]
    return bool(patience) and len(scores) - int(np.argmax(scores or [0])) > patience


def choose_weights(model, checkpoints, greedy, pairs, recipe: Recipe, folder: Path) -> None:
    """Leaves in the model the better of the best weights and the mean of the last checkpoints."""
    put(model, folder / "checkpoints/best.npz")
    if recipe.average < 2:
        return
    count = min(recipe.eval_sentences, len(pairs))

    def bleu():
        return translation_scores(greedy(pairs.source[:count]), pairs.target[:count])["bleu"]

    best = bleu()
    put(model, checkpoints.average(recipe.average))
    mean = bleu()
    print(f"validation BLEU: best checkpoint {best:.2f}, mean of {recipe.average} {mean:.2f}")
    if best > mean:
        put(model, folder / "checkpoints/best.npz")
