"""Workers that Ray Train starts."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.train.launch.ray_train import with_loopback
from tfx_transformer.train.recipe import absolute_paths, save_recipe
from tfx_transformer.train.run import train


def config(*addresses):
    return {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": 1}}


def test_workers_of_one_machine_use_the_loopback():
    assert with_loopback(config("10.0.0.5:1", "10.0.0.5:2")) == config("127.0.0.1:1", "127.0.0.1:2")
    assert with_loopback(config("10.0.0.5:1", "10.0.0.6:1")) == config("10.0.0.5:1", "10.0.0.6:1")


def workers_of(marker: str) -> list[int]:
    """The processes of Ray's workers that were started with a variable of this value."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_worker = b"RayTrainWorker" in (process / "cmdline").read_bytes()
            if is_worker and marker.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


@pytest.mark.serving
def test_a_worker_of_a_local_ray_is_killed_and_the_weights_are_those_of_one_device(
    language_recipe_of, tmp_path
):
    pytest.importorskip("ray.train")
    recipe = absolute_paths(language_recipe_of(steps=6, eval_steps=2))
    recipe = dataclasses.replace(recipe, model=recipe.model.replace(dropout=0.0))
    one, folder = tmp_path / "one", tmp_path / "ray"
    train(recipe, one)
    folder.mkdir()
    save_recipe(recipe, folder / "recipe.json")
    options = ["--workers", "2", "--engine", "ray", "--restarts", "2", "train", "--resume"]
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "launch", *options, str(folder)]
    with (tmp_path / "log").open("w") as log:
        variables = os.environ | {"MARKER": str(folder)}
        launcher = subprocess.Popen(command, stdout=log, stderr=log, env=variables)
    end = time.monotonic() + 900
    while not (folder / "checkpoints/step_00000002.npz").exists():
        is_late = time.monotonic() > end
        assert launcher.poll() is None and not is_late, (tmp_path / "log").read_text()[-3000:]
        time.sleep(0.02)
    workers = workers_of(str(folder))
    assert len(workers) == 2
    os.kill(workers[1], signal.SIGKILL)
    assert launcher.wait(900) == 0, (tmp_path / "log").read_text()[-3000:]
    assert set(workers_of(str(folder))).isdisjoint(workers)
    expected, found = (x / "checkpoints/step_00000006.npz" for x in (one, folder))
    with np.load(expected) as expected, np.load(found) as found:
        assert expected.files == found.files
        for name in expected.files:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5, err_msg=name)
    scores = [json.loads((x / "test.json").read_text()) for x in (one, folder)]
    assert scores[1]["log_prob"] == pytest.approx(scores[0]["log_prob"], abs=1e-4)
