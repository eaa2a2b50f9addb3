"""An experiment from its data to a trained model, as one function from top to bottom.

Repeating a run goes on from its last checkpoint: the batches and the random numbers of a step
depend on the seed and the step alone.
"""

import contextlib
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfx_transformer.callbacks import Progress, Record, StopAtNaN
from tfx_transformer.checkpoint import Checkpoints, put, values, write
from tfx_transformer.data import Pairs, Tokenizer, train_tokenizer, training_data
from tfx_transformer.losses import TokenCrossentropy, share_of_batch
from tfx_transformer.models import create_model
from tfx_transformer.optimizer import FusedAdam
from tfx_transformer.schedules import SCHEDULES
from tfx_transformer.strategy import check_strategy, choose_strategy
from tfx_transformer.train.evaluation import Judge, evaluate, load_split
from tfx_transformer.train.folder import SIDES, check_folder, load_tokenizers, open_folder
from tfx_transformer.train.recipe import Data, Recipe
from tfx_transformer.train.tensorboard import Board


def train(recipe: Recipe, folder) -> dict[str, Any]:
    """Runs a recipe in a folder, or goes on with it, and returns the scores on the test set."""
    folder = Path(folder)
    check_folder(recipe, folder)
    pairs = {split: load_split(recipe.data, split) for split in ("train", "validation", "test")}
    open_folder(recipe, folder)  # only now: bad data leaves nothing behind
    keras.utils.set_random_seed(recipe.seed)
    keras.config.set_dtype_policy(recipe.precision)
    record, board = Record(folder / "metrics.jsonl"), Board(folder / "tensorboard")

    # data
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
    judge = Judge(model, tokenizers, pairs["validation"], recipe)
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
            scores = judge(step, folder / f"samples/step_{step:08d}.txt")
            is_best = scores["bleu"] >= best_bleu(record)
            if is_best:
                write(folder / "checkpoints/best.npz", values(model))
        scores["loss"] = history.history["loss"][-1]
        scores["tokens_per_second"] = tokens * updates / seconds
        record.add(step, **scores)
        board.add(step, **scores)
        checkpoints.save(step, model)  # last: a kill before it repeats the interval

    # the better of the best and the average of the last
    choose_weights(model, checkpoints, judge, recipe.average)
    model.save(folder / "model.keras")
    return evaluate(folder)


def make_tokenizers(data: Data, pairs: Pairs, folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of the source and of the target; trained at the first call, read from the folder later."""
    paths = [folder / f"{side}.model" for side in SIDES]
    if not all(path.exists() for path in paths):
        texts = [[*pairs.source, *pairs.target]] if data.joint else [pairs.source, pairs.target]
        made = [train_tokenizer(text, data.vocab_size, kind=data.tokenizer) for text in texts]
        folder.mkdir(parents=True, exist_ok=True)
        for path, tokenizer in zip(paths, (made[0], made[-1]), strict=True):
            tokenizer.save(path)
    return load_tokenizers(folder)


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
    """Adam with the recipe's schedule."""
    own = recipe.optimizer
    schedule = SCHEDULES.make(
        own.schedule,
        learning_rate=own.learning_rate,
        warmup_steps=own.warmup_steps,
        total_steps=recipe.steps,
    )
    return FusedAdam(
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


def best_bleu(record: Record) -> float:
    return max((line["bleu"] for line in record.read()), default=0.0)


def is_stuck(record: Record, patience: int) -> bool:
    """Whether the last `patience` evaluations brought no better BLEU."""
    scores = [line["bleu"] for line in record.read()]
    return bool(patience) and len(scores) - int(np.argmax(scores or [0])) > patience


def choose_weights(model, checkpoints: Checkpoints, judge: Judge, count: int) -> None:
    """Leaves in the model the better of the best weights and the mean of the last checkpoints."""
    put(model, checkpoints.folder / "best.npz")
    if count < 2:
        return
    best = judge.bleu()
    put(model, checkpoints.average(count))
    mean = judge.bleu()
    print(f"validation BLEU: best checkpoint {best:.2f}, mean of {count} {mean:.2f}")
    if best > mean:
        put(model, checkpoints.folder / "best.npz")
