"""Plans a run for a time: model, batches and steps from the data and from timed steps."""

import contextlib
import copy
import dataclasses
import io
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import keras

from tfx_transformer.files import read_json, write_file
from tfx_transformer.train.optimizer import dtype_policy, find_precision, make_optimizer
from tfx_transformer.train.recipe import Recipe, flatten, load_recipe, save_recipe
from tfx_transformer.train.run_folder import FREE
from tfx_transformer.train.tasks.base import Task
from tfx_transformer.training.precision import float32_copy
from tfx_transformer.training.updates import distribute, use_updates

EVALUATIONS = 10  # during the run, fewer if they take long
EVALUATION_SHARE = 0.2  # of the time
OVERHEAD = 20.0  # seconds, to trace the graphs of the run and to load its model for the test
PLANNING = 0.08  # fraction of the time after which no larger model is tried
MIN_STEPS = 10


def find_plan(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe that was planned in the folder, if any, for the same request."""
    path = folder / "plan.json"
    if not recipe.minutes or not path.exists():
        return recipe
    old, new = read_json(path).get("request", {}), request(recipe)
    if old != new:
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        changed = "; ".join(f"{name} was {old.get(name)}, is {new.get(name)}" for name in names)
        raise ValueError(
            f"{folder} holds a run that was planned for other options: {changed}; "
            "choose another folder, or remove this one"
        )
    stored = load_recipe(folder / "recipe.json")
    free = {name: getattr(recipe, name) for name in FREE if hasattr(recipe, name)}
    return dataclasses.replace(stored, **free)


def request(recipe: Recipe) -> dict[str, Any]:
    """The options of a recipe that decide its plan, as they are read from JSON."""
    options = flatten(json.loads(json.dumps(dataclasses.asdict(recipe))))
    return {name: x for name, x in options.items() if name.partition(".")[0] not in FREE}


def plan_run(task: Task, folder: Path, begin: float) -> Task:
    """The task with a recipe for its time, which is also written to the folder.

    Of the recipes that the task proposes, from small to large, it is the largest that makes enough
    steps. The run began at `begin`, by `time.perf_counter()`.
    """
    found: Any = None
    seconds = 60 * task.recipe.minutes
    shutil.rmtree(folder / "tokenizer", ignore_errors=True)  # of a plan that was not finished
    for recipe in task.sizes():
        candidate = copy.copy(found or task)
        candidate.recipe = dataclasses.replace(recipe, minutes=None)
        with contextlib.redirect_stdout(io.StringIO()):  # the run prints the data, once
            if found is None or task.batches_follow_model:
                candidate.prepare(folder)
            times = time_task(candidate)
        left = seconds - (time.perf_counter() - begin) - OVERHEAD - times["test"]
        evaluations = int(EVALUATION_SHARE * left / times["evaluation"])
        evaluations = min(max(evaluations, 1), EVALUATIONS)
        steps = int((left - evaluations * times["evaluation"]) / times["step"])
        enough, most = candidate.useful_steps()
        if found is not None and steps < enough:
            break
        found, chosen, count, total = candidate, times, evaluations, min(steps, most)
        if steps < 2 * enough or time.perf_counter() - begin > PLANNING * seconds:
            break
    if total < MIN_STEPS:
        least = (seconds - left + chosen["evaluation"] + MIN_STEPS * chosen["step"]) / 60
        raise ValueError(
            f"--minutes must be at least {least:.1f} for this data on this machine; "
            f"got --minutes={task.recipe.minutes}"
        )
    found.recipe = with_steps(found.recipe, total, count)
    spent = time.perf_counter() - begin + OVERHEAD + chosen["test"]
    spent += total * chosen["step"] + count * chosen["evaluation"]
    text = f"{found.describe_plan()}, {total:,} steps, about {spent / 60:.0f} min here"
    print(f"plan: {text}", flush=True)
    save_recipe(found.recipe, folder / "recipe.json")
    plan = {"plan": text, "seconds": chosen, "request": request(task.recipe)}
    write_file(folder / "plan.json", json.dumps(plan, indent=2) + "\n")
    return found


def with_steps(recipe: Recipe, steps: int, evaluations: int) -> Recipe:
    """The recipe with these numbers of steps and evaluations, and a warm-up that fits."""
    warmup = min(recipe.optimizer.warmup_steps, steps // 10)
    optimizer = dataclasses.replace(recipe.optimizer, warmup_steps=warmup)
    eval_steps = math.ceil(steps / evaluations)
    return dataclasses.replace(recipe, steps=steps, eval_steps=eval_steps, optimizer=optimizer)


def time_task(task: Task, least: int = 8, seconds: float = 6.0) -> dict[str, float]:
    """Seconds of a training step, of an evaluation and of the final test.

    At least so many steps, and for so many seconds, are timed.
    """
    recipe, accumulate = task.recipe, task.recipe.optimizer.accumulate
    keras.utils.set_random_seed(recipe.seed)
    with dtype_policy(find_precision(recipe)[0]):
        model = task.make_model()
    model.compile(make_optimizer(recipe, model), task.loss, jit_compile=recipe.jit_compile)
    use_updates(model, accumulate)
    timer = StepTimer(least, seconds)
    batches = distribute(model.distribute_strategy, lambda: task.batches(0), accumulate)
    model.fit(batches, shuffle=False, verbose=0, callbacks=[timer])
    evaluation, test = task.evaluation_seconds(float32_copy(model))
    return {"step": timer.mean(), "evaluation": evaluation, "test": test}


class StepTimer(keras.callbacks.Callback):
    """Times the steps of `fit`, and ends it after `least` steps and `seconds`."""

    def __init__(self, least: int, seconds: float):
        super().__init__()
        self.least, self.seconds = least, seconds
        self.ends: list[float] = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())
        first = self.ends[1] if len(self.ends) > 1 else self.ends[0]  # traced, buffers filled
        elapsed = self.ends[-1] - first
        is_done = len(self.ends) > self.least + 1 and elapsed > self.seconds
        if is_done or (len(self.ends) > 2 and elapsed > 4 * self.seconds > 0):
            self.model.stop_training = True

    def mean(self) -> float:
        """Without the first two steps."""
        times = self.ends[1:] if len(self.ends) > 2 else self.ends
        return (times[-1] - times[0]) / max(len(times) - 1, 1) or 1e-3
