"""The run folder: what an experiment writes, and how it is read again.

`recipe.json versions.json checkpoints/ samples/ tensorboard/ metrics.jsonl`, and by task the
`tokenizer/`, `classes.json` and `skipped.json`; of pairs in files a `cache/`, which may be removed;
of a planned run `plan.json`; at the end `model.keras` and `test.json`.
"""

import dataclasses
import json
import platform
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfx_transformer import __version__, register_classes
from tfx_transformer.convert.hub import find_folder
from tfx_transformer.export import is_export, load, read_info
from tfx_transformer.files import check_unlocked, reading, write_file
from tfx_transformer.train.recipe import Recipe, file_names, flatten, load_recipe, save_recipe
from tfx_transformer.train.tasks import TASKS, load_task
from tfx_transformer.training.checkpoint import Checkpoints, step_of

# fields of a recipe that may change when a run is continued: the batches of a step stay the same
FREE = ("decoding", "strategy", "data.cache", "steps_per_execution")


def check_folder(recipe: Recipe, folder: Path) -> None:
    """Raises if the folder is in use, or holds a run of another recipe.

    Other decoding options and devices are allowed, and another number of steps if the schedule does
    not depend on it: the weights so far are the same. Without a checkpoint there is no run yet.
    """
    check_unlocked(folder)
    changed = changes(recipe, folder)
    made = [step_of(path) for path in (folder / "checkpoints").glob("*_????????.npz")]
    if changed and made:
        reason = ""
        if any(change.startswith("steps ") for change in changed):
            reason = " (the cosine schedule of the steps so far depends on the number of steps)"
        raise ValueError(
            f"{folder} holds a run of another recipe: {'; '.join(changed)}{reason}; "
            "choose another folder, or remove this one"
        )
    if recipe.steps < max(made, default=0):
        raise ValueError(
            f"steps must be at least {max(made)}, as {folder} has made them; "
            f"got steps={recipe.steps}"
        )


def changes(recipe: Recipe, folder: Path) -> list[str]:
    """The options in which the recipe differs from the one in the folder: "seed was 0, is 1"."""
    path = folder / "recipe.json"
    if not path.exists():
        return []
    stored = load_recipe(path)
    old, new = (flatten(dataclasses.asdict(x)) for x in (stored, recipe))
    free = FREE if recipe.optimizer.schedule == "cosine" else (*FREE, "steps")
    names = [x for x in {**old, **new} if not {x, x.partition(".")[0]} & {*free}]
    return [
        f"{name} was {old.get(name)}, is {new.get(name)}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def is_finished(recipe: Recipe, folder: Path) -> bool:
    """Whether the folder holds the trained model of this recipe, and its scores."""
    files = (folder / name for name in ("recipe.json", "model.keras", "test.json"))
    if not all(path.exists() for path in files):
        return False
    old, new = (
        flatten(dataclasses.asdict(x)) | dict.fromkeys(FREE[1:])
        for x in (load_recipe(folder / "recipe.json"), recipe)
    )
    return old == new


def read_scores(folder: Path) -> dict[str, Any]:
    """The scores on the test set, in test.json; they may be NaN."""
    path = folder / "test.json"
    with reading(path):
        return dict(json.loads(path.read_text()))


def open_folder(recipe: Recipe, folder: Path) -> None:
    """Writes the recipe and the versions; removes the results of an earlier end of the run."""
    if changes(recipe, folder):  # left by a run that failed before its first checkpoint
        shutil.rmtree(folder / "tokenizer", ignore_errors=True)
    for name in ("model.keras", "test.json"):
        (folder / name).unlink(missing_ok=True)
    save_recipe(recipe, folder / "recipe.json")
    versions = {"tfx_transformer": __version__, "python": platform.python_version()}
    versions |= {"tensorflow": tf.__version__, "keras": keras.__version__}
    versions["sentencepiece"] = version("sentencepiece")  # its vocabularies depend on it
    write_file(folder / "versions.json", json.dumps(versions, indent=2) + "\n")


def write_skipped(folder: Path, splits: dict[str, Any]) -> None:
    """Writes skipped.json: the files of each split that could not be read."""
    skipped = {split: data.skipped for split, data in splits.items()}
    text = json.dumps(skipped, indent=2, ensure_ascii=False)
    write_file(folder / "skipped.json", text)


@dataclass(frozen=True)
class Run:
    """A run, read from its folder; if it is not finished, with its best weights so far."""

    folder: Path
    recipe: Any
    task: Any
    model: Any
    is_finished: bool = True

    def pipeline(self, **options) -> Any:
        """The model with its pre- and post-processing; options as in PipelineOptions."""
        return self.task.pipeline(self.model, **options)

    def card(self) -> str:
        """A model card from the recipe and the test scores."""
        scores = read_scores(self.folder) if (self.folder / "test.json").exists() else {}
        lines = [f"# {self.recipe.model.name}, {self.model.count_params():,} parameters", ""]
        recipe = file_names(self.recipe)  # no paths of this machine
        lines += [f"Data: {recipe.data}", "", "Scores on the test set:", ""]
        lines += [f"- {name}: {rounded(value)}" for name, value in scores.items()]
        recipe = json.dumps(dataclasses.asdict(recipe), indent=2)
        return "\n".join([*lines, "", "Recipe:", "", "```json", recipe, "```", ""])


def rounded(score: Any) -> Any:
    """A score, or scores by class, with two decimals."""
    if isinstance(score, dict):
        return {name: rounded(value) for name, value in score.items()}
    return round(score, 2) if isinstance(score, float) else score


def load_run(folder, task: str | None = None) -> Run:
    """The recipe, task and model of a run folder, which must be of `task`, if one is given."""
    folder = Path(folder)
    if is_export(folder):
        raise ValueError(f"{folder} is an export; its run folder is needed here")
    checkpoints = Checkpoints(folder / "checkpoints")
    is_finished = (folder / "model.keras").exists()
    if not is_finished and not any(checkpoints.folder.glob("*.npz")):
        raise ValueError(f"{folder} holds no trained model: neither model.keras nor a checkpoint")
    recipe = load_recipe(folder / "recipe.json")
    loaded = load_task(recipe.task)(recipe)
    if task is not None and recipe.task != task:
        raise ValueError(f"{folder} holds a {loaded.noun}, not a {load_task(task).noun}")
    loaded.restore(folder)
    loaded.cache = folder / "cache" if (folder / "cache").exists() else None
    register_classes()
    if is_finished:
        model = keras.saving.load_model(folder / "model.keras", compile=False)
    else:
        model = loaded.make_model()
        step = checkpoints.restore_best(model)
        print(
            f"{folder} is not finished: this is its best checkpoint, step {step:,}", file=sys.stderr
        )
    return Run(folder, recipe, loaded, model, is_finished)


def find_kind(folder: Path) -> str:
    """The kind of pipeline of a run or an export, which is not loaded."""
    if is_export(folder):
        return read_info(folder)["kind"]
    return load_task(load_recipe(folder / "recipe.json").task).kind


def load_pipeline(folder, task: str | None = None, **options) -> Any:
    """A pipeline, or an export that is called like one, which must be of `task`, if one is given.

    The folder is of a run or an export, or what a task's `from_checkpoint` can read, also as
    hf:OWNER/NAME or keras_hub:PRESET; options are those of PipelineOptions.
    """
    folder = find_folder(folder)
    if is_export(folder):
        exported = load(folder, load_task(task).kind if task else None)
        check_export_options(folder, exported.options, options)
        return exported
    if not (folder / "recipe.json").exists():
        for name in [task] if task else TASKS:
            pipeline = load_task(name).from_checkpoint(folder, **options)
            if pipeline is not None:
                return pipeline
    return load_run(folder, task).pipeline(**options)


def check_export_options(folder: Path, stored: dict[str, Any], options: dict[str, Any]) -> None:
    """Raises if an option differs from the one of the export; it may return fewer results."""
    stored = stored.get("decoder", {}) | stored
    for name, value in options.items():
        is_count = name == "n_best" or (name == "top_k" and "class_names" in stored)
        limit = stored.get(name)
        if value != limit and not (is_count and limit is not None and value <= limit):
            rule = "at most" if is_count else "as exported,"
            raise ValueError(f"{name} of {folder} must be {rule} {limit}; got {name}={value}")
