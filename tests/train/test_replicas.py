"""Runs on two replicas, two halves of the CPU, make the updates of one device.

One new process makes all runs: devices are split before the first operation.
"""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions, save_recipe
from tfx_transformer.train.tasks import TASKS
from tfx_transformer.train.tasks.masked_language_model import (
    MaskedLanguageModelData,
    MaskedLanguageModelRecipe,
)

# clipped at every step; noise of tiny gradients is not amplified
OPTIMIZER = OptimizerOptions(
    learning_rate=0.02, warmup_steps=2, epsilon=1e-3, clip_norm=0.1, ema=0.5, weight_decay=0.01
)
RUNS = """
from tfx_transformer.runtime import import_tensorflow
import_tensorflow()
import dataclasses, sys
from pathlib import Path
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from tfx_transformer.layers import recurrent
from tfx_transformer.train import run
from tfx_transformer.train.recipe import load_recipe

def evaluator(task, model):
    return lambda step, path: {task.metric: 0.0}

def prepare(task, folder, replicas):
    super(type(task), task).prepare(folder, 2)  # batches that two replicas can divide

def load_task(name, load=run.load_task):
    return type(name, (load(name),), {"evaluator": evaluator, "prepare": prepare})

def no_noise(shape, seed):
    return tf.zeros(shape)

run.load_task, run.evaluate, noise = load_task, lambda folder: {}, recurrent.gumbel_noise
for path in sorted(Path(sys.argv[1]).glob("*.json")):
    recipe = load_recipe(path)
    one, mirrored = (dataclasses.replace(recipe, strategy=x) for x in ("one", "mirrored"))
    is_random = path.stem.startswith("random")
    recurrent.gumbel_noise = noise if is_random else no_noise
    if not is_random:
        run.train(one, path.with_name(f"{path.stem}_one"))
    two = path.with_name(f"{path.stem}_two")
    run.train(mirrored, two)
    if is_random:  # the second half again
        (two / "checkpoints/step_00000004.npz").rename(two / "first.npz")
        run.train(mirrored, two)
"""


@pytest.fixture(scope="module")
def folder(
    recipe_of,
    caption_recipe_of,
    classify_recipe_of,
    classify_text_recipe_of,
    language_recipe_of,
    sentences,
    tmp_path_factory,
):
    """A folder with the runs `<name>_one` and `<name>_two`."""
    masked = MaskedLanguageModelRecipe(
        data=MaskedLanguageModelData(str(sentences), vocab_size=290, token_budget=256),
        model=ModelOptions.of("bert", "test"),
    )
    recipes = {
        "captioning": caption_recipe_of(),
        "classification": classify_recipe_of(),
        "language_model": language_recipe_of(precision="mixed_float16"),
        "masked_language_model": masked,
        "text_classification": classify_text_recipe_of(precision="mixed_bfloat16"),
        "translation": recipe_of(),
    }

    def change(name, **options):
        return replace(recipes[name], model=recipes[name].model.replace(**options))

    recipes |= {name: change(name, dropout=0.0) for name in recipes}
    recipes["classification"] = change("classification", drop_path=0.0, norm="batch")
    recipes["hard"] = change("captioning", hard=True)
    recipes["random"] = change("captioning", hard=True, dropout=0.5)
    folder = tmp_path_factory.mktemp("replicas")
    for name, recipe in recipes.items():
        own = {"steps": 4, "eval_steps": 2, "average": 1, "optimizer": OPTIMIZER}
        save_recipe(replace(recipe, **own), folder / f"{name}.json")
    command = [sys.executable, "-c", RUNS, str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    return folder


def arrays(folder, name="checkpoints/step_00000004.npz"):
    with np.load(folder / name) as stored:
        return dict(stored)


@pytest.mark.parametrize("name", [*sorted(TASKS), "hard"])
def test_two_replicas_train_like_one_device(folder, name):
    one, two = arrays(folder / f"{name}_one"), arrays(folder / f"{name}_two")
    assert one.keys() == two.keys()
    tolerance = 1e-3 if name in ("language_model", "text_classification") else 1e-5  # 16 bits
    for key, array in one.items():
        np.testing.assert_allclose(two[key], array, atol=tolerance, err_msg=key)


def test_a_resumed_run_on_two_replicas_repeats_its_random_numbers(folder):
    first, again = arrays(folder / "random_two", "first.npz"), arrays(folder / "random_two")
    for key, array in first.items():
        np.testing.assert_array_equal(again[key], array, err_msg=key)
