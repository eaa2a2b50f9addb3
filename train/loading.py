"""A trained model as one callable, from a run folder, an export or a checkpoint of others."""

from pathlib import Path
from typing import Any

from tfx_transformer.convert.hub import find_folder
from tfx_transformer.export import is_export, load
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks import TASKS, load_task


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
