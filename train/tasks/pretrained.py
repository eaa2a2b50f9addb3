"""Pretrained weights that a classifier is fine-tuned from: of a run, or of a checkpoint.

Text classifiers start from a masked language model or a Hugging Face BERT, which also give the
vocabulary and the sizes. Image classifiers start from another run or a checkpoint; only the head is
new, if the classes are.
"""

import posixpath
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert import find_checkpoint, load_weights, read_normalization, read_options
from tfx_transformer.data import Tokenizer
from tfx_transformer.data.images.pixels import NORMALIZATION
from tfx_transformer.data.text.wordpiece import WordPiece
from tfx_transformer.models import create_model
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.run_folder import Run, load_run

NOT_SIZES = ("name", "trainable", "dtype")  # entries of a model's config that are not copied
POSITIONS = "position_embedding/table"  # learned for one image size


def find_tokenizer(weights: str) -> Tokenizer | WordPiece:
    """The tokenizer that belongs to pretrained weights."""
    if is_run(weights):
        return load_run(weights, "masked_language_model").task.tokenizer
    return WordPiece.load(find_checkpoint(weights).parent)


def make_pretrained_encoder(weights: str, own: ModelOptions, tokenizer, num_classes: int):
    """A text classifier whose encoder has pretrained weights.

    Args:
        weights: as in `TextClassificationRecipe`.
        own: its options win over those of the weights; its variant is used where a folder has no
            config.json.
        tokenizer: from `find_tokenizer`.
        num_classes: C.
    """
    head = {"head": "classify", "num_classes": num_classes}
    if is_run(weights):
        source = load_run(weights, "masked_language_model")
        options = model_sizes(source) | {"next_sentence": False} | own.options | head
        model = create_model(source.recipe.model.name, **options)
        new = copy_weights(weights_by_name(source.model), model)
    else:
        file = find_checkpoint(weights)
        options = read_options(own.name, file) | {"vocab_size": tokenizer.vocab_size}
        model = create_model(own.name, own.variant, **options | own.options | head)
        new = load_weights(model, file, head=False)
    print(f"{weights}: all weights loaded except {', '.join(new)}")
    return model


def classifier_options(weights: str, name: str) -> dict[str, Any]:
    """The options of the model `name` that fit the pretrained weights, where they are known."""
    if not is_run(weights):
        return read_options(name, find_checkpoint(weights))
    run = load_run(weights, "classification")
    if run.recipe.model.name != name:
        raise ValueError(f"{weights} is of a model {run.recipe.model.name!r}; got {name!r}")
    return model_sizes(run)


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


def load_classifier_weights(model, weights: str, class_names: list[str]) -> list[str]:
    """Loads the weights of a run or a checkpoint → names of weights that stay new (the head).

    Learned positions of images of another size are resized.
    """
    if not is_run(weights):
        return load_weights(model, weights, head=False)
    run = load_run(weights, "classification")
    has_same_classes = run.task.class_names == class_names
    source = weights_by_name(run.model)
    source = {n: x for n, x in source.items() if has_same_classes or not n.startswith("head")}
    if POSITIONS in source:
        grid = model.grid((None, model.image_size, model.image_size, model.channels))
        source[POSITIONS] = run.model.position_embedding.resize(source[POSITIONS], grid)
    return copy_weights(source, model)


def is_run(weights: str) -> bool:
    return (Path(weights) / "recipe.json").exists()


def model_sizes(run: Run) -> dict[str, Any]:
    """The constructor arguments of a run's model."""
    config = run.model.get_config()
    return {name: value for name, value in config.items() if name not in NOT_SIZES}


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


def weights_by_name(model) -> dict[str, Any]:
    """The weights by their paths below the model."""
    root = posixpath.commonpath([weight.path for weight in model.weights])
    return {posixpath.relpath(weight.path, root): weight for weight in model.weights}
