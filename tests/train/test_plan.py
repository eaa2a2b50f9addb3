"""Plans of runs; the times are set by hand, so that the plan does not depend on the machine."""

import dataclasses
import json
import time

import keras
import numpy as np
import pytest

from tfx_transformer.train import plan
from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.plan import StepTimer, find_plan, plan_run, time_task
from tfx_transformer.train.recipe import ModelOptions, absolute_paths, load_recipe
from tfx_transformer.train.tasks import load_task
from tfx_transformer.train.tasks.translation.sizes import propose_sizes


@pytest.fixture
def request_of(recipe_of):
    """Makes a recipe without sizes, for some minutes."""

    def make(minutes):
        recipe = recipe_of()
        return dataclasses.replace(recipe, minutes=minutes, model=ModelOptions("transformer"))

    return make


@pytest.fixture
def prepared(request_of, monkeypatch):
    """Makes a task with its data, whose steps take as many seconds as said, by dim."""

    def make(minutes, step_seconds, pairs=60_000):
        task = load_task("translation")(request_of(minutes))
        task.load_data()
        monkeypatch.setattr(type(task), "sizes", lambda self: propose_sizes(self.recipe, pairs))
        monkeypatch.setattr(type(task), "useful_steps", lambda self: (100, 5000))

        def time_task(task):
            step = step_seconds[task.make_model().dim]  # it has all that a model needs
            return {"step": step, "evaluation": 2.0, "test": 10.0}

        monkeypatch.setattr(plan, "time_task", time_task)
        return task

    return make


def test_the_largest_model_with_enough_steps_is_chosen(prepared, tmp_path, capsys):
    task = prepared(10, {128: 0.1, 192: 1.0})
    planned = plan_run(task, tmp_path, time.perf_counter())
    recipe, options = planned.recipe, planned.recipe.model.options
    assert (options["dim"], options["depth"]) == (192, 4) and recipe.minutes is None
    seconds = 600 - plan.OVERHEAD - 10 - plan.EVALUATIONS * 2.0  # what is left for 1 s a step
    assert seconds - 60 < recipe.steps <= seconds
    assert recipe.steps <= plan.EVALUATIONS * recipe.eval_steps < recipe.steps + plan.EVALUATIONS
    assert recipe.optimizer.warmup_steps <= recipe.steps // 10
    shown = capsys.readouterr().out
    assert "→ 4 + 4 blocks of 192" in shown and " 0.0 M" not in shown
    assert shown.startswith("plan: ")  # the run prints the data


def test_a_model_that_is_too_slow_is_not_chosen(prepared, tmp_path):
    planned = plan_run(prepared(10, {128: 0.1, 192: 9.0}), tmp_path, time.perf_counter())
    assert planned.recipe.model.options["dim"] == 128
    assert planned.recipe.steps <= 5000  # at most as many as are useful


def test_a_time_that_is_too_short_is_refused(prepared, tmp_path):
    with pytest.raises(ValueError, match=r"--minutes must be at least 0\.[67] for this data"):
        plan_run(prepared(0.1, {128: 0.1}), tmp_path, time.perf_counter())
    assert not (tmp_path / "plan.json").exists()


def test_long_evaluations_are_fewer(prepared, tmp_path, monkeypatch):
    task = prepared(10, {128: 0.1, 192: 9.0})
    times = {"step": 0.1, "evaluation": 60.0, "test": 60.0}
    monkeypatch.setattr(plan, "time_task", lambda task: times)
    recipe = plan_run(task, tmp_path, time.perf_counter()).recipe
    assert -(-recipe.steps // recipe.eval_steps) == 1  # a fifth of the time at most
    assert recipe.steps > 3000


def test_the_tokenizer_of_an_unfinished_plan_is_made_again(prepared, tmp_path):
    (tmp_path / "tokenizer").mkdir()
    for side in ("source", "target"):
        (tmp_path / f"tokenizer/{side}.model").write_text("half")
    plan_run(prepared(10, {128: 0.1, 192: 9.0}), tmp_path, time.perf_counter())


def test_the_plan_is_found_again(prepared, request_of, tmp_path):
    planned = plan_run(prepared(10, {128: 0.1, 192: 1.0}), tmp_path, time.perf_counter())
    assert load_recipe(tmp_path / "recipe.json") == absolute_paths(planned.recipe)
    assert find_plan(request_of(10), tmp_path) == load_recipe(tmp_path / "recipe.json")
    assert json.loads((tmp_path / "plan.json").read_text())["seconds"]["step"] == 1.0
    with pytest.raises(ValueError, match="planned for other options: minutes was 10, is 11; choo"):
        find_plan(request_of(11), tmp_path)
    wide = dataclasses.replace(request_of(10), decoding=DecodingOptions(kind="beam", width=9))
    assert find_plan(wide, tmp_path).decoding.width == 9
    given = dataclasses.replace(request_of(10), minutes=None)
    assert find_plan(given, tmp_path) is given


def test_real_steps_evaluations_and_tests_are_timed(request_of, tmp_path):
    task = load_task("translation")(request_of(1))
    task.load_data()
    task.recipe = task.sizes()[0]
    task.prepare(tmp_path)
    times = time_task(task, least=2, seconds=0.0)
    assert all(0 < seconds < 60 for seconds in times.values())
    assert set(times) == {"step", "evaluation", "test"}


def test_the_timer_leaves_out_the_first_steps():
    timer = StepTimer(least=3, seconds=0.0)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(np.ones((64, 2)), np.ones((64, 1)), batch_size=1, verbose=0, callbacks=[timer])
    assert len(timer.ends) == 5  # least and the two that are left out
    timer.ends = [0.0, 10.0, 11.0, 12.5, 13.0]
    assert timer.mean() == 1.0
