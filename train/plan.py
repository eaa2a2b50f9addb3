"""Plans a run for a time: model, batches and steps from the data and from timed steps."""

import copy
import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import keras

from tfx_transformer.files import write_file
from tfx_transformer.train.optimizer import make_optimizer
from tfx_transformer.train.recipe import Recipe, load_recipe, save_recipe
from tfx_transformer.train.tasks.base import Task
from tfx_transformer.training.losses import normalize_batches

EVALUATIONS = 10  # during the run
OVERHEAD = 20.0  # seconds, to trace the graphs of the run and to load its model for the test
PLANNING = 0.08  # fraction of the time after which no larger model is tried


def find_plan(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe that was planned in the folder, if any, for the same request."""
    path = folder / "plan.json"
    if not recipe.minutes or not path.exists():
        return recipe
    if json.loads(path.read_text())["request"] != request(recipe):
        raise ValueError(
            f"{folder} holds a run that was planned for other options, see {path}; "
            "choose another folder, or remove this one"
        )
    return load_recipe(folder / "recipe.json")


def request(recipe: Recipe) -> dict[str, Any]:
    """The options of a recipe as they are read from JSON."""
    return json.loads(json.dumps(dataclasses.asdict(recipe)))


def plan_run(task: Task, folder: Path, begin: float) -> Task:
    """The task with a recipe for its time, which is also written to the folder.

    Of the recipes that the task proposes, from small to large, it is the largest that makes enough
    steps.

    Args:
        task: with its data; its recipe has `minutes`.
        folder: of the run; gets the tokenizers, recipe.json and plan.json.
        begin: when the run began, by `time.perf_counter()`.
    """
    found: Any = None
    seconds = 60 * task.recipe.minutes
    for recipe in task.sizes():
        candidate = copy.copy(found or task)
        candidate.recipe = dataclasses.replace(recipe, minutes=None)
        if found is None or task.batches_follow_model:
            candidate.prepare(folder, 1)
        times = time_task(candidate)
        left = seconds - (time.perf_counter() - begin) - OVERHEAD
        steps = int((left - times["test"] - EVALUATIONS * times["evaluation"]) / times["step"])
        enough, most = candidate.useful_steps()
        if found is not None and steps < enough:
            break
        found, chosen, total = candidate, times, min(max(steps, 1), most)
        if steps < 2 * enough or time.perf_counter() - begin > PLANNING * seconds:
            break
    found.recipe = with_steps(found.recipe, total)
    spent = time.perf_counter() - begin + OVERHEAD + chosen["test"]
    spent += total * chosen["step"] + EVALUATIONS * chosen["evaluation"]
    text = f"{found.describe_plan()}, {total:,} steps, about {spent / 60:.0f} min here"
    print(f"plan: {text}", flush=True)
    save_recipe(found.recipe, folder / "recipe.json")
    plan = {"plan": text, "seconds": chosen, "request": request(task.recipe)}
    write_file(folder / "plan.json", json.dumps(plan, indent=2) + "\n")
    return found


def with_steps(recipe: Recipe, steps: int) -> Recipe:
    """The recipe with this number of steps, and evaluations and a warm-up that fit it."""
    warmup = min(recipe.optimizer.warmup_steps, steps // 10)
    optimizer = dataclasses.replace(recipe.optimizer, warmup_steps=warmup)
    eval_steps = math.ceil(steps / EVALUATIONS)
    return dataclasses.replace(recipe, steps=steps, eval_steps=eval_steps, optimizer=optimizer)


def time_task(task: Task, least: int = 8, seconds: float = 6.0) -> dict[str, float]:
    """Seconds of a training step, of an evaluation and of the final test.

    Args:
        task: with its data and batches.
        least: number of steps to time.
        seconds: time of these steps.
    """
    keras.utils.set_random_seed(task.recipe.seed)
    keras.config.set_dtype_policy(task.recipe.precision)
    model, accumulate = task.make_model(), task.recipe.optimizer.accumulate
    model.compile(make_optimizer(task.recipe, model), task.loss, jit_compile=False)
    timer = StepTimer(least * accumulate, seconds)
    batches = normalize_batches(task.batches(0), accumulate)
    model.fit(batches, shuffle=False, verbose=0, callbacks=[timer])
    evaluation, test = task.evaluation_seconds(model)
    return {"step": timer.mean() * accumulate, "evaluation": evaluation, "test": test}


class StepTimer(keras.callbacks.Callback):
    """Times the steps of `fit`, and ends it after `least` steps and `seconds`."""

    def __init__(self, least: int, seconds: float):
        super().__init__()
        self.least, self.seconds = least, seconds
        self.ends: list[float] = []

    def on_train_batch_end(self, batch, logs=None):
        self.ends.append(time.perf_counter())
        first = self.ends[1] if len(self.ends) > 1 else self.ends[0]  # traced, buffers filled
        if len(self.ends) > self.least + 1 and self.ends[-1] - first > self.seconds:
            self.model.stop_training = True

    def mean(self) -> float:
        """Without the first two steps."""
        times = self.ends[1:] if len(self.ends) > 2 else self.ends
        return (times[-1] - times[0]) / max(len(times) - 1, 1) or 1e-3
