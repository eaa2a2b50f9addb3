"""An experiment from its data to a trained model, as one function from top to bottom.

A repeated call continues from the last checkpoint, exactly: the batches and the random numbers of a
step depend on the seed and the step alone.
"""

import contextlib
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfx_transformer.runtime import without_autograph
from tfx_transformer.train.optimizer import make_optimizer
from tfx_transformer.train.recipe import Recipe
from tfx_transformer.train.run_folder import check_folder, load_run, open_folder
from tfx_transformer.train.tasks import load_task
from tfx_transformer.training.callbacks import MetricsLog, Progress, StopAtNaN
from tfx_transformer.training.checkpoint import (
    Checkpoints,
    assign_variables,
    variable_values,
    write_arrays,
)
from tfx_transformer.training.input_wait import InputWait
from tfx_transformer.training.losses import normalize_weights
from tfx_transformer.training.strategy import check_strategy, choose_strategy
from tfx_transformer.training.tensorboard import TensorBoardLog


def train(recipe: Recipe, folder) -> dict[str, Any]:
    """Runs a recipe in a folder, or continues it, and returns the scores on the test set."""
    folder = Path(folder)
    check_folder(recipe, folder)
    task = load_task(recipe.task)(recipe)
    task.load_data()
    open_folder(recipe, folder)  # only now: bad data writes nothing
    keras.utils.set_random_seed(recipe.seed)
    keras.config.set_dtype_policy(recipe.precision)
    log, board = MetricsLog(folder / "metrics.jsonl"), TensorBoardLog(folder / "tensorboard")

    # data and model
    strategy, accumulate = choose_strategy(recipe.strategy), recipe.optimizer.accumulate
    check_strategy(strategy, accumulate, recipe.jit_compile)
    task.prepare(folder, strategy.num_replicas_in_sync)
    with strategy.scope():
        model = task.make_model()
        model.compile(make_optimizer(recipe, model), task.loss, jit_compile=recipe.jit_compile)
        if not model.optimizer.built:  # Keras wrapped it for loss scaling in float16
            model.optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(folder / "checkpoints", keep=max(recipe.average, 2))
    step = checkpoints.restore(model)
    print(f"{type(model).__name__}: {model.count_params():,} parameters; from step {step:,}")

    # training steps; an evaluation and a checkpoint follow each interval
    evaluator, wait = task.evaluator(model), InputWait()
    while step < recipe.steps and not has_stopped_improving(log, task.metric, recipe.patience):
        steps = min(recipe.eval_steps - step % recipe.eval_steps, recipe.steps - step)
        progress = Progress(recipe.steps, step, task.units_per_batch, task.unit, accumulate)
        start = time.perf_counter()
        history = model.fit(
            wait.watch(task.batches(step * accumulate).map(without_autograph(normalize_batch))),
            steps_per_epoch=steps * accumulate,
            shuffle=False,
            verbose=0,
            callbacks=[progress, wait, StopAtNaN()],
        )
        seconds = time.perf_counter() - start
        step += steps
        with averaged_weights(model, recipe.optimizer.ema):
            scores = evaluator(step, folder / f"samples/step_{step:08d}")
            if scores[task.metric] >= best_score(log, task.metric):
                write_arrays(folder / "checkpoints/best.npz", variable_values(model))
        scores["loss"] = history.history["loss"][-1]
        scores[f"{task.unit}_per_second"] = task.units_per_batch * accumulate * steps / seconds
        scores["waiting_for_data"] = wait.fraction()
        log.add(step, **scores)
        board.add(step, **scores)
        checkpoints.save(step, model)  # last: a run killed before it repeats the interval

    # the final weights, and their scores
    choose_weights(model, checkpoints, evaluator, recipe.average)
    model.save(folder / "model.keras")
    return evaluate(folder)


def evaluate(folder, data: Sequence[str] = (), **options) -> dict[str, Any]:
    """Scores a finished run on its test set, or on other data.

    With the recipe's own test set and options the scores are also written to test.json.

    Args:
        folder: of the run.
        data: another test set; one source or several files, depending on the task.
        options: of the pipeline, as in PipelineOptions.
    """
    run = load_run(folder)
    scores = run.task.test(run, data, **options)
    if not data and not options:
        (run.folder / "test.json").write_text(json.dumps(scores, indent=2) + "\n")
    return scores


def normalize_batch(inputs, targets, weights):
    """A batch with its weights divided by their sum: the summed loss is then a mean."""
    return inputs, targets, normalize_weights(weights)


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


def best_score(log: MetricsLog, metric: str) -> float:
    return max((line[metric] for line in log.read()), default=-math.inf)


def has_stopped_improving(log: MetricsLog, metric: str, patience: int) -> bool:
    """Whether none of the last `patience` evaluations improved the best score."""
    scores = [line[metric] for line in log.read()]
    return bool(patience) and len(scores) - int(np.argmax(scores or [0])) > patience


def choose_weights(model, checkpoints: Checkpoints, evaluator, count: int) -> None:
    """Leaves in the model the better of the best weights and the mean of the last checkpoints."""
    assign_variables(model, checkpoints.folder / "best.npz")
    if count < 2:
        return
    best = evaluator.whole_metric()
    assign_variables(model, checkpoints.average(count))
    mean = evaluator.whole_metric()
    print(f"validation: best checkpoint {best:.2f}, mean of the last {count} {mean:.2f}")
    if best > mean:
        assign_variables(model, checkpoints.folder / "best.npz")
