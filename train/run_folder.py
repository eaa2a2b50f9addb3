"""The run folder: what an experiment writes, and how it is read again.

`recipe.json versions.json checkpoints/ samples/ tensorboard/ metrics.jsonl`, and by task the
`tokenizer/`, `classes.json` and `skipped.json`; at the end `model.keras` and `test.json`.
"""

import dataclasses
import json
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfx_transformer import __version__, register_classes
from tfx_transformer.train.recipe import Recipe, load_recipe, save_recipe
from tfx_transformer.train.tasks import load_task
from tfx_transformer.training.callbacks import MetricsLog

FREE = ("steps", "decoding")  # fields of a recipe that may change when a run is continued


def check_folder(recipe: Recipe, folder: Path) -> None:
    """Raises if the folder holds a run of another recipe.

    More steps, or other decoding options, are allowed: the weights so far are the same. Without a
    checkpoint there is no run yet.
    """
    changed = changes(recipe, folder)
    if changed and any((folder / "checkpoints").glob("step_*.npz")):
        raise ValueError(
            f"{folder} holds a run of another recipe: {', '.join(changed)} changed; "
            "choose another folder, or remove this one"
        )


def changes(recipe: Recipe, folder: Path) -> list[str]:
    """The fields in which the recipe differs from the one in the folder."""
    path = folder / "recipe.json"
    if not path.exists():
        return []
    old, new = dataclasses.asdict(load_recipe(path)), dataclasses.asdict(recipe)
    names = {*old, *new} - {*FREE}
    return sorted(name for name in names if old.get(name) != new.get(name))


def open_folder(recipe: Recipe, folder: Path) -> None:
    """Creates the run folder and writes the recipe and the versions."""
    if changes(recipe, folder):  # left by a run that failed before its first checkpoint
        shutil.rmtree(folder / "tokenizer", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    save_recipe(recipe, folder / "recipe.json")
    versions = {"tfx_transformer": __version__, "python": platform.python_version()}
    versions |= {"tensorflow": tf.__version__, "keras": keras.__version__}
    versions["sentencepiece"] = version("sentencepiece")  # its vocabularies depend on it
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


def write_skipped(folder: Path, splits: dict[str, Any]) -> None:
    """Writes skipped.json: the files of each split that could not be read."""
    skipped = {split: data.skipped for split, data in splits.items()}
    text = json.dumps(skipped, indent=2, ensure_ascii=False)
    (folder / "skipped.json").write_text(text, "utf-8", "backslashreplace")


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    recipe: Any
    task: Any
    model: Any

    def pipeline(self, **options) -> Any:
        """The model with its pre- and post-processing; options as in PipelineOptions."""
        return self.task.pipeline(self.model, **options)

    def card(self) -> str:
        """A model card from the recipe and the test scores."""
        scores = json.loads((self.folder / "test.json").read_text())
        lines = [f"# {self.recipe.model.name}, {self.model.count_params():,} parameters", ""]
        lines += [f"Data: {self.recipe.data}", "", "Scores on the test set:", ""]
        lines += [f"- {name}: {value}" for name, value in scores.items()]
        recipe = json.dumps(dataclasses.asdict(self.recipe), indent=2)
        return "\n".join([*lines, "", "Recipe:", "", "```json", recipe, "```", ""])


def load_run(folder, task: str | None = None) -> Run:
    """The recipe, task and model of a run folder.

    Args:
        folder: of the run.
        task: the task that it must be of; None accepts any.
    """
    folder = Path(folder)
    if not (folder / "model.keras").exists():
        raise ValueError(f"{folder} holds no finished run: there is no {folder / 'model.keras'}")
    recipe = load_recipe(folder / "recipe.json")
    loaded = load_task(recipe.task)(recipe)
    if task is not None and recipe.task != task:
        raise ValueError(f"{folder} holds a {loaded.noun}, not a {load_task(task).noun}")
    loaded.restore(folder)
    register_classes()
    model = keras.saving.load_model(folder / "model.keras", compile=False)
    return Run(folder, recipe, loaded, model)


def plot_training_curves(run: Run, to: Path, format: str) -> Path:
    """Plots the metrics of a run over its training steps."""
    from tfx_transformer.visualization.curves import plot_curves

    records = MetricsLog(run.folder / "metrics.jsonl").read()
    return plot_curves(records, to / f"curves.{format}", run.folder.name)
