"""Trains each recipe of a folder with all strategies: python cells.py FOLDER, by two workers.

The first worker also trains on one device, and the second on two, so that few processes start.
"python cells.py FOLDER mirrored_4" is a process of its own. Devices are split, and workers
connected, before the first operation.
"""

import dataclasses
import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfx_transformer.layers import recurrent
from tfx_transformer.train import run
from tfx_transformer.train.recipe import load_recipe
from tfx_transformer.train.tasks.base import Evaluation, Evaluator
from tfx_transformer.training.strategy import choose_strategy
from tfx_transformer.training.workers import Workers

# graphs that run a few times only: to optimize them takes longer
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})

METRICS = ("accuracy", "bleu", "bleu_4", "log_prob", "validation_loss")


class NoEvaluator(Evaluator):
    """Every score is 0."""

    def evaluate(self, whole=False):
        return Evaluation(dict.fromkeys(METRICS, 0.0), "", [])


def load_task(name, load=run.load_task):
    return type(name, (load(name),), {"evaluator": lambda task, model: NoEvaluator()})


def no_noise(shape, seed):
    return tf.zeros(shape)


def train(recipe, folder: Path) -> None:
    """The run, and with dropout its second half again."""
    run.train(recipe, folder)
    if not folder.name.startswith("random") or folder.name.endswith("_one"):
        return
    workers = Workers(choose_strategy(recipe.strategy))
    with workers.chief_first():
        if workers.is_chief:
            (folder / "checkpoints/step_00000004.npz").rename(folder / "first.npz")
    run.train(recipe, folder)


def find_faults() -> list[str]:
    """The errors of `fit` of Keras with several workers: by itself, and without the first."""
    faults = []
    for build in (None, lambda *_, **__: None):
        with choose_strategy("multiworker").scope():
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse", jit_compile=False)
        if build:
            model._maybe_symbolic_build = build
        try:
            model.fit(np.ones((4, 2)), np.ones((4, 1)), batch_size=4, verbose=0)
            faults.append("")
        except ValueError as error:
            faults.append(str(error))
    return faults


def exchange(workers: Workers) -> dict:
    own = workers.index
    return {
        "json": workers.gather_json(["é", own]),
        "rows": [part.tolist() for part in workers.gather(np.full(1 + own, own))],
        "divided": workers.divide(lambda items: [f"{x}!" for x in items], [0, 1, 2], to_json=True),
        "of_chief": workers.of_chief(lambda: own),
    }


def move(folder: Path, recipe, workers: Workers) -> None:
    """Two steps on one device, which only the chief makes, and two with all workers."""
    if workers.is_chief:
        run.train(dataclasses.replace(recipe, steps=2, strategy="one"), folder)
    workers.gather_json(None)
    run.train(recipe, folder)


def split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * count
    tf.config.set_logical_device_configuration(cpu, parts)


def train_all(folder: Path, strategy: str, only: tuple[str, ...] = ()) -> None:
    """The runs FOLDER/<recipe>_<strategy>."""
    noise = recurrent.gumbel_noise
    for path in sorted(folder.glob("*_*.json")):
        if only and path.stem not in only:
            continue
        recurrent.gumbel_noise = noise if path.stem.startswith("random") else no_noise
        recipe = dataclasses.replace(load_recipe(path), strategy=strategy.partition("_")[0])
        train(recipe, path.with_name(f"{path.stem}_{strategy}"))
    recurrent.gumbel_noise = noise


def main(folder: Path, strategy: str) -> None:
    run.load_task, run.evaluate = load_task, lambda folder, workers: {}
    if strategy == "mirrored_4":
        split_cpu(4)
        return train_all(folder, strategy, ("accumulate_captioning", "accumulate_translation"))
    split_cpu(2)
    workers = Workers(choose_strategy("multiworker"))
    train_all(folder, "one" if workers.is_chief else "mirrored_2")
    train_all(folder, "multiworker")
    recipe = load_recipe(folder / "accumulate_language_model.json")
    move(folder / "moved", dataclasses.replace(recipe, strategy="multiworker"), workers)
    found = {"exchanged": exchange(workers), "faults": find_faults()}
    for title, content in found.items():
        if workers.is_chief:
            (folder / f"{title}.json").write_text(json.dumps(content))


if __name__ == "__main__":
    main(Path(sys.argv[1]), (*sys.argv, "")[2])
