"""Pretrained weights that a classifier is fine-tuned from: of a run, or of a checkpoint.

Text classifiers start from a masked language model or a Hugging Face BERT, which also give the
vocabulary and the sizes. Image classifiers start from another run or a checkpoint; only the head is
new, if the classes are.
"""

from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert import find_checkpoint, load_weights, read_normalization, read_options
from tfx_transformer.convert.checkpoint import weights_by_name
from tfx_transformer.data import Tokenizer
from tfx_transformer.data.images.pixels import NORMALIZATION
from tfx_transformer.data.text.wordpiece import WordPiece
from tfx_transformer.train.run_folder import load_run

PRETRAINING = "masked_language_model"  # the task of runs that text classifiers start from
NOT_SIZES = ("name", "trainable", "dtype")  # entries of a model's config that are not copied
POSITIONS = "position_embedding/table"  # learned for one image size


def find_tokenizer(weights: str) -> Tokenizer | WordPiece:
    """The tokenizer that belongs to pretrained weights."""
    if is_run(weights):
        return load_run(weights, PRETRAINING).task.tokenizer
    return WordPiece.load(find_checkpoint(weights).parent)


def pretrained_options(weights: str, name: str, task: str) -> dict[str, Any]:
    """The options of the model `name` that fit pretrained weights, where they are known.

    A run must be of this task.
    """
    if not is_run(weights):
        return read_options(name, find_checkpoint(weights))
    run = load_run(weights, task)
    if run.recipe.model.name != name:
        raise ValueError(f"{weights} is of a model {run.recipe.model.name!r}; got {name!r}")
    config = run.model.get_config()
    return {name: value for name, value in config.items() if name not in NOT_SIZES}


def check_normalization(weights: str, own: str) -> None:
    """Raises if the pretrained weights are known to need another normalization."""
    if is_run(weights):
        needed = load_run(weights, "classification").recipe.data.normalization
    else:
        stored = read_normalization(find_checkpoint(weights))
        fitting = [
            name for name, pair in NORMALIZATION.items() if stored and np.allclose(pair, stored)
        ]
        needed = fitting[0] if fitting else own
    if needed != own:
        raise ValueError(f"data.normalization must be {needed}, as {weights} has it; got {own}")


def assign_pretrained(model, weights: str, task: str, class_names: list[str]) -> None:
    """Loads pretrained weights into a classifier; its head stays new, if its classes are.

    Learned positions of images of another size are resized.
    """
    if is_run(weights):
        run = load_run(weights, task)
        has_same_classes = getattr(run.task, "class_names", None) == class_names
        source = weights_by_name(run.model)
        source = {n: x for n, x in source.items() if has_same_classes or not n.startswith("head")}
        if POSITIONS in source and hasattr(model, "grid"):
            grid = model.grid(model.input_shapes())
            source[POSITIONS] = run.model.position_embedding.resize(source[POSITIONS], grid)
        new = copy_weights(source, model)
    else:
        new = load_weights(model, weights, head=False)
    print(f"{weights}: all weights loaded except {', '.join(new) or 'none'}")


def is_run(weights: str) -> bool:
    return (Path(weights) / "recipe.json").exists()


def copy_weights(source: dict[str, Any], model) -> list[str]:
    """Assigns weights by name where the model has them → the names of the others."""
    own = weights_by_name(model)
    for name in own.keys() & source.keys():
        if own[name].shape != source[name].shape:
            raise ValueError(
                f"{name} must be {tuple(source[name].shape)}, as pretrained; the options of the "
                f"model make it {tuple(own[name].shape)}"
            )
        own[name].assign(source[name])
    return [name for name in own if name not in source]
