"""Real workers: one is killed, one is asked to stop, and the weights are those of a quiet run."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.train.recipe import absolute_paths, save_recipe
from tfx_transformer.training.checkpoint import step_of

COMMAND = [sys.executable, "-m", "tfx_transformer.train.cli", "launch", "--workers", "2"]


def start(folder: Path, *options: str) -> subprocess.Popen:
    """`launch` of a run that is described by recipe.json in a folder."""
    command = [*COMMAND, *options, "train", "--resume", str(folder)]
    with (folder / "launch.log").open("a") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def workers_of(launcher: subprocess.Popen) -> list[int]:
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    return sorted(map(int, children.read_text().split()))


def wait_for(path: Path, launcher: subprocess.Popen) -> None:
    while not path.exists():
        assert launcher.poll() is None, (path.parents[1] / "launch.log").read_text()[-3000:]
        time.sleep(0.02)


def final_weights(folder: Path, step: int = 6) -> dict[str, np.ndarray]:
    with np.load(folder / f"checkpoints/step_{step:08d}.npz") as stored:
        return dict(stored)


@pytest.fixture(scope="module")
def new_run(language_recipe_of, tmp_path_factory):
    """Makes the folder of a run with dropout, of a model that is quickly built and evaluated."""

    def make(name, recipe_of=language_recipe_of, **options):
        folder = tmp_path_factory.mktemp(name)
        recipe = recipe_of(**{"steps": 6, "eval_steps": 2} | options)
        save_recipe(absolute_paths(recipe), folder / "recipe.json")
        return folder

    return make


def finish(launcher, folder) -> None:
    assert launcher.wait(1800) == 0, (folder / "launch.log").read_text()[-3000:]


def assert_equal_weights(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for key, array in one.items():
        np.testing.assert_array_equal(other[key], array, err_msg=key)


def test_a_kill_and_a_stop_change_nothing_in_the_weights(new_run):
    quiet, disturbed = new_run("quiet", eval_steps=1, average=6), new_run("disturbed", average=6)
    finish(start(quiet), quiet)
    assert (quiet / "test.json").exists() and not (quiet / "lock").exists()
    assert "step 6: " in (quiet / "launch.log").read_text()
    assert "step 6: " not in (quiet / "workers/1.log").read_text()  # only the chief reports

    launcher = start(disturbed)
    wait_for(disturbed / "checkpoints/step_00000002.npz", launcher)
    os.kill(workers_of(launcher)[1], signal.SIGKILL)
    wait_for(disturbed / "checkpoints/step_00000004.npz", launcher)
    launcher.send_signal(signal.SIGTERM)
    code = launcher.wait(600)
    log = (disturbed / "launch.log").read_text()
    assert "worker 1 was killed by SIGKILL; 3 restarts are left" in log
    assert code in (0, 128 + signal.SIGTERM), log[-3000:]  # 0: too late
    last = max((disturbed / "checkpoints").glob("st*_????????.npz"), key=step_of)
    assert step_of(last) >= 4
    with np.load(last) as stored:
        assert_equal_weights(final_weights(quiet, step_of(last)), dict(stored))


@pytest.mark.slow
def test_two_workers_end_with_the_figures_of_one_process(tmp_path):
    steps = ["--steps", "12", "--eval-steps", "6", "--optimizer.warmup-steps", "4"]
    decoding = ["--eval-sentences", "20", "--decoding.kind", "greedy"]
    options = [*steps, *decoding, "--model.dropout", "0", "--model.dim", "32"]
    for launched, name in (([], "one"), (COMMAND[3:], "two")):
        command = [*COMMAND[:3], *launched, "train", "translate_cldr", *options]
        subprocess.run([*command, "--folder", str(tmp_path / name)], check=True)
    one, two = (json.loads((tmp_path / name / "test.json").read_text()) for name in ("one", "two"))
    assert two["perplexity"] == pytest.approx(one["perplexity"], rel=1e-3) and two["sentences"] > 9
    for name in ("bleu", "chrf", "length_ratio"):
        assert two[name] == pytest.approx(one[name], abs=0.3)


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing_in_the_weights(new_run):
    options = {"steps": 80, "eval_steps": 2}
    quiet, disturbed = new_run("quiet_long", **options), new_run("disturbed_long", **options)
    launcher, begin = start(quiet), time.monotonic()
    wait_for(quiet / "checkpoints/step_00000002.npz", launcher)
    first = time.monotonic() - begin  # starting takes most of it
    finish(launcher, quiet)
    launcher, rng, kills = start(disturbed, "--restarts", "30"), random.Random(0), 0
    while kills < 20 and launcher.poll() is None:
        time.sleep(rng.uniform(0.3, 1.5) * first)
        number = rng.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
        with contextlib.suppress(IndexError, OSError, ValueError):
            os.kill(rng.choice(workers_of(launcher)), number)
            kills += 1
    assert kills > 5
    finish(launcher, disturbed)
    assert_equal_weights(final_weights(quiet, 80), final_weights(disturbed, 80))
