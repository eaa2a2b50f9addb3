"""An experiment from its data to a trained model, as one function from top to bottom.

Repeating a run goes on from its last checkpoint: the batches and the random numbers of a step
depend on the seed and the step alone.
"""

import contextlib
import math
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfx_transformer.callbacks import Progress, Record, StopAtNaN
from tfx_transformer.checkpoint import Checkpoints, put, values, write
from tfx_transformer.graph import as_it_is
from tfx_transformer.losses import share_of_batch
from tfx_transformer.strategy import check_strategy, choose_strategy
from tfx_transformer.train.captioning import Captioning
from tfx_transformer.train.classification import Classification
from tfx_transformer.train.evaluation import evaluate
from tfx_transformer.train.folder import check_folder, open_folder
from tfx_transformer.train.language import Language
from tfx_transformer.train.masked_language import MaskedLanguage
from tfx_transformer.train.optimization import make_optimizer
from tfx_transformer.train.recipe import CaptionRecipe, ClassifyRecipe, Recipe, TranslateRecipe
from tfx_transformer.train.tensorboard import Board
from tfx_transformer.train.text_classification import TextClassification
from tfx_transformer.train.text_recipe import ClassifyTextRecipe, LanguageRecipe, MaskRecipe
from tfx_transformer.train.translation import Translation
from tfx_transformer.train.waiting import Wait

TASKS = {
    TranslateRecipe: Translation,
    ClassifyRecipe: Classification,
    CaptionRecipe: Captioning,
    LanguageRecipe: Language,
    MaskRecipe: MaskedLanguage,
    ClassifyTextRecipe: TextClassification,
}


def train(recipe: Recipe, folder) -> dict[str, Any]:
    """Runs a recipe in a folder, or goes on with it, and returns the scores on the test set."""
    folder = Path(folder)
    check_folder(recipe, folder)
    task = TASKS[type(recipe)](recipe)
    open_folder(recipe, folder)  # only now: bad data leaves nothing behind
    keras.utils.set_random_seed(recipe.seed)
    keras.config.set_dtype_policy(recipe.precision)
    record, board = Record(folder / "metrics.jsonl"), Board(folder / "tensorboard")

    # data and model
    strategy, accumulate = choose_strategy(recipe.strategy), recipe.optimizer.accumulate
    check_strategy(strategy, accumulate, recipe.jit_compile)
    task.prepare(folder, strategy.num_replicas_in_sync)
    with strategy.scope():
        model = task.make_model()
        model.compile(make_optimizer(recipe, model), task.loss, jit_compile=recipe.jit_compile)
        if not model.optimizer.built:  # Keras wrapped it, to scale losses of half precision
            model.optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(folder / "checkpoints", keep=max(recipe.average, 2))
    step = checkpoints.restore(model)
    print(f"{type(model).__name__}: {model.count_params():,} parameters; from step {step:,}")

    # updates, each interval closed by an evaluation and a checkpoint
    judge, wait = task.judge(model), Wait()
    while step < recipe.steps and not is_stuck(record, task.metric, recipe.patience):
        updates = min(recipe.eval_steps - step % recipe.eval_steps, recipe.steps - step)
        progress = Progress(recipe.steps, step, task.units_per_batch, task.unit, accumulate)
        start = time.perf_counter()
        history = model.fit(
            wait.watch(task.batches(step * accumulate).map(as_it_is(share))),
            steps_per_epoch=updates * accumulate,
            shuffle=False,
            verbose=0,
            callbacks=[progress, wait, StopAtNaN()],
        )
        seconds = time.perf_counter() - start
        step += updates
        with averaged_weights(model, recipe.optimizer.ema):
            scores = judge(step, folder / f"samples/step_{step:08d}")
            if scores[task.metric] >= best_score(record, task.metric):
                write(folder / "checkpoints/best.npz", values(model))
        scores["loss"] = history.history["loss"][-1]
        scores[f"{task.unit}_per_second"] = task.units_per_batch * accumulate * updates / seconds
        scores["waiting_for_data"] = wait.share()
        record.add(step, **scores)
        board.add(step, **scores)
        checkpoints.save(step, model)  # last: a kill before it repeats the interval

    # the better of the best and the average of the last
    choose_weights(model, checkpoints, judge, recipe.average)
    model.save(folder / "model.keras")
    return evaluate(folder)


def share(inputs, targets, weights):
    """A batch with its weights divided by their sum, so that the sum of its losses is a mean."""
    return inputs, targets, share_of_batch(weights)


@contextlib.contextmanager
def averaged_weights(model, ema: float):
    """Inside, the model has the moving averages of its weights, if the recipe keeps them."""
    if not ema:
        yield
        return
    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    averages = optimizer._model_variables_moving_average
    weights = model.trainable_variables
    kept = [weight.numpy() for weight in weights]
    for weight, average in zip(weights, averages, strict=True):
        weight.assign(average)
    try:
        yield
    finally:
        for weight, value in zip(weights, kept, strict=True):
            weight.assign(value)


def best_score(record: Record, metric: str) -> float:
    return max((line[metric] for line in record.read()), default=-math.inf)


def is_stuck(record: Record, metric: str, patience: int) -> bool:
    """Whether the last `patience` evaluations brought no better score."""
    scores = [line[metric] for line in record.read()]
    return bool(patience) and len(scores) - int(np.argmax(scores or [0])) > patience


def choose_weights(model, checkpoints: Checkpoints, judge, count: int) -> None:
    """Leaves in the model the better of the best weights and the mean of the last checkpoints."""
    put(model, checkpoints.folder / "best.npz")
    if count < 2:
        return
    best = judge.whole()
    put(model, checkpoints.average(count))
    mean = judge.whole()
    print(f"validation: best checkpoint {best:.2f}, mean of {count} {mean:.2f}")
    if best > mean:
        put(model, checkpoints.folder / "best.npz")
