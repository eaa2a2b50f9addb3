"""An experiment from its data to a trained model, as one function from top to bottom.

A repeated call continues from the last checkpoint, exactly: the batches and the random numbers of a
step depend on the seed and the step alone.
"""

import contextlib
import json
import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfx_transformer.data.share import Share
from tfx_transformer.files import lock_folder, whole_file, write_file
from tfx_transformer.train.optimizer import (
    dtype_policy,
    make_optimizer,
    recorded_precision,
    with_precision,
)
from tfx_transformer.train.plan import find_plan, plan_run
from tfx_transformer.train.recipe import Recipe, absolute_paths
from tfx_transformer.train.run_folder import (
    check_folder,
    is_finished,
    load_run,
    open_folder,
    read_scores,
)
from tfx_transformer.train.tasks import load_task
from tfx_transformer.train.tasks.base import Task, timed
from tfx_transformer.training.callbacks import MetricsLog, Progress, StopAtNaN
from tfx_transformer.training.checkpoint import Checkpoints, assign_variables
from tfx_transformer.training.input_wait import InputWait
from tfx_transformer.training.precision import copy_weights, float32_copy
from tfx_transformer.training.stopping import Stopped, StopSignals
from tfx_transformer.training.strategy import choose_strategy, separate_seeds
from tfx_transformer.training.tensorboard import TensorBoardLog
from tfx_transformer.training.updates import distribute, set_steps, use_updates
from tfx_transformer.training.workers import Workers


def train(recipe: Recipe, folder) -> dict[str, Any]:
    """Runs a recipe in a folder, or continues it, and returns the scores on the test set.

    Ctrl-C and SIGTERM end the run after the current step, with a checkpoint, and raise `Stopped`.
    """
    begin = time.perf_counter()
    recipe.check()
    workers = Workers(choose_strategy(recipe.strategy))  # before any operation of TensorFlow
    folder, recipe = Path(folder), absolute_paths(recipe)
    if workers.is_chief:
        recipe = recorded_precision(find_plan(recipe, folder), folder)
        check_folder(recipe, folder)
    if workers.of_chief(lambda: is_finished(recipe, folder)):
        print(f"{folder} is finished; its scores on the test set are:")
        return read_scores(folder)
    with StopSignals(workers) as stop:
        task = load_task(recipe.task)(recipe)
        task.check()
        task.workers, task.cache = workers, folder / "cache"
        task.load_data()
        folder.mkdir(parents=True, exist_ok=True)  # only now: bad data leaves nothing
        with lock_folder(folder) if workers.is_chief else contextlib.nullcontext():
            with workers.chief_first():
                if workers.is_chief and recipe.minutes:
                    task = plan_run(task, folder, begin)
                task.recipe = find_plan(task.recipe, folder)
            task.recipe = with_precision(task.recipe, folder, workers)
            with dtype_policy(task.recipe.precision):
                train_task(task, folder, stop)
            return evaluate(folder, workers=workers)


def train_task(task: Task, folder: Path, stop: StopSignals) -> None:
    """The run itself: from prepared data to the final weights in model.keras.

    Each of several workers passes through here and takes its part of the batches and evaluations.
    Only the chief writes, and it decides.
    """
    recipe, workers, strategy = task.recipe, task.workers, task.workers.strategy
    accumulate = recipe.optimizer.accumulate
    keras.utils.set_random_seed(recipe.seed)
    log, board = MetricsLog(folder / "metrics.jsonl"), TensorBoardLog(folder / "tensorboard")

    # data and model
    with workers.chief_first():
        if workers.is_chief:
            open_folder(recipe, folder)
        task.prepare(folder)
    share = Share(workers.index, workers.count, strategy.num_replicas_in_sync)
    task.data.divide(share)
    with strategy.scope():
        model = task.make_model()
        model.compile(make_optimizer(recipe, model), task.loss, jit_compile=recipe.jit_compile)
        scored = float32_copy(model)
    use_updates(model, accumulate, stop.is_requested if workers.count > 1 else None)
    checkpoints = Checkpoints(folder / "checkpoints", keep=max(recipe.average, 2))
    with workers.chief_first():
        step = checkpoints.restore(model)
        if workers.is_chief:
            log.truncate(step)
    separate_seeds(strategy, model)
    print(f"{type(model).__name__}: {model.count_params():,} parameters; from step {step:,}")

    # training steps; an evaluation and a checkpoint follow each interval
    evaluator, wait = task.evaluator(scored), InputWait()
    units = task.units_per_batch * accumulate, task.unit
    progress = Progress(recipe.steps, step, *units, recipe.eval_steps, task.test_ratio)
    is_over = partial(has_stopped_improving, log, task.metric, recipe.patience)

    def batches_from(step):
        return wait.watch(task.batches(step * accumulate))

    with stop.deferred(), checkpoints:
        while step < recipe.steps and not workers.of_chief(is_over) and not stop.is_agreed():
            steps = min(recipe.eval_steps - step % recipe.eval_steps, recipe.steps - step)
            set_steps(model, execution := math.gcd(steps, recipe.steps_per_execution))
            wait.batches = accumulate * execution
            task.adapt(model, log.read())
            start = time.perf_counter()
            history = model.fit(
                distribute(strategy, partial(batches_from, step), accumulate, share.local_replicas),
                steps_per_epoch=steps,
                shuffle=False,
                verbose=0,
                callbacks=[progress, wait, StopAtNaN(), stop, checkpoints],
            )
            seconds = time.perf_counter() - start
            steps, step = progress.step - step, progress.step
            if step % recipe.eval_steps and step < recipe.steps:  # stopped
                if workers.is_chief:
                    checkpoints.save_stopped(step, model)
                break
            with averaged_weights(model, recipe.optimizer.ema):
                copy_weights(model, scored)
                result, progress.eval_seconds = timed(evaluator.evaluate)
                if workers.is_chief:
                    evaluator.report(result, step, folder / "samples")
                    if as_score(result.scores[task.metric]) >= best_score(log, task.metric):
                        checkpoints.save_best(step, model)
            if workers.is_chief:
                scores = dict(result.scores)
                scores["loss"] = history.history["loss"][-1]
                scores[f"{task.unit}_per_second"] = units[0] * steps / seconds
                scores["waiting_for_data"] = wait.fraction()
                log.add(step, **scores)
                board.add(step, **scores)
                checkpoints.save(step, model)  # last: a run killed before it repeats the interval
    if stop.is_agreed():
        raise Stopped(
            stop.number,
            f"stopped at step {step:,} of {recipe.steps:,}, with a checkpoint; "
            f"continue with: tfx-transformer train --resume {folder}",
        )

    # the final weights
    choose_weights(scored, checkpoints, evaluator, task.metric, recipe.average)
    with workers.chief_first():
        if workers.is_chief:
            with whole_file(folder / "model.keras") as path:
                scored.save(path)


def evaluate(
    folder, data: Sequence[str] = (), workers: Workers | None = None, **options
) -> dict[str, Any]:
    """Scores a run on its test set, or on other data.

    Other data are one source or several files, depending on the task; options are those of the
    pipeline. Without either, the scores of a finished run are also written to test.json. Several
    workers, each of which calls this function, share the work.
    """
    run = load_run(folder)
    run.task.workers = workers = workers or Workers()
    scores = run.task.test(run, data, **options)
    if not data and not options and run.is_finished and workers.is_chief:
        write_file(run.folder / "test.json", json.dumps(scores, indent=2) + "\n")
    return scores


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


def as_score(value: float) -> float:
    """A metric for comparison: NaN is worse than any number."""
    return -math.inf if math.isnan(value) else value


def best_score(log: MetricsLog, metric: str) -> float:
    return max((as_score(line[metric]) for line in log.read()), default=-math.inf)


def has_stopped_improving(log: MetricsLog, metric: str, patience: int) -> bool:
    """Whether none of the last `patience` evaluations improved the best score."""
    scores = [as_score(line[metric]) for line in log.read()]
    return bool(patience) and len(scores) - int(np.argmax(scores or [0])) > patience


def choose_weights(model, checkpoints: Checkpoints, evaluator, metric: str, count: int) -> None:
    """Leaves in the model the better of the best weights and the mean of the last checkpoints."""
    checkpoints.restore_best(model)
    if count < 2:
        return
    best = as_score(evaluator.evaluate(whole=True).scores[metric])
    assign_variables(model, checkpoints.average(count))
    mean = as_score(evaluator.evaluate(whole=True).scores[metric])
    print(f"validation: best checkpoint {best:.2f}, mean of the last {count} {mean:.2f}")
    if best > mean:
        checkpoints.restore_best(model)
