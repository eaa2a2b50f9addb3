"""Workers that Ray Train starts."""

import dataclasses
import json
import subprocess
import sys

import pytest

from tfx_transformer.train.launch.ray_train import with_loopback
from tfx_transformer.train.recipe import absolute_paths, save_recipe


def config(*addresses):
    return {"cluster": {"worker": list(addresses)}, "task": {"type": "worker", "index": 1}}


def test_workers_of_one_machine_use_the_loopback():
    assert with_loopback(config("10.0.0.5:1", "10.0.0.5:2")) == config("127.0.0.1:1", "127.0.0.1:2")
    assert with_loopback(config("10.0.0.5:1", "10.0.0.6:1")) == config("10.0.0.5:1", "10.0.0.6:1")


@pytest.mark.serving
def test_two_workers_of_a_local_ray_train_and_test_a_model(recipe_of, tmp_path):
    recipe = recipe_of(steps=4, eval_steps=2, average=1)
    recipe = dataclasses.replace(recipe, eval_sentences=3)
    save_recipe(absolute_paths(recipe), tmp_path / "recipe.json")
    options = ["--workers", "2", "--engine", "ray", "--restarts", "1"]
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "launch", *options]
    result = subprocess.run(
        [*command, "train", "--resume", str(tmp_path)], capture_output=True, text=True, timeout=900
    )
    assert result.returncode == 0, result.stderr[-3000:]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").open()]
    assert [line["step"] for line in lines] == [2, 4]
    assert "bleu" in json.loads((tmp_path / "test.json").read_text())
