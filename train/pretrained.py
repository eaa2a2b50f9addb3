"""What a classifier starts from.

One of texts: a run that filled in blanks, or a BERT of Hugging Face. Both bring their vocabulary
and their sizes; only what lies above the encoder is new. One of pictures: another run of pictures,
or a checkpoint of others; only the head is new, if the classes are.
"""

import posixpath
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert import (
    find_checkpoint,
    load_weights,
    read_normalisation,
    read_options,
)
from tfx_transformer.data import Tokenizer
from tfx_transformer.data.pixels import NORMALISATION
from tfx_transformer.data.wordpiece import WordPiece
from tfx_transformer.models import create_model
from tfx_transformer.train.folder import load_classify_run, load_mask_run
from tfx_transformer.train.text_recipe import EncoderModel

OWN = ("name", "trainable", "dtype")  # of a model's configuration, but not of its sizes


def find_tokenizer(weights: str) -> Tokenizer | WordPiece:
    """The vocabulary that belongs to the weights."""
    if is_run(weights):
        return load_mask_run(weights).tokenizer
    return WordPiece.load(find_checkpoint(weights).parent)


def make_pretrained(weights: str, own: EncoderModel, tokenizer, num_classes: int):
    """A classifier, built, whose encoder has the weights.

    Args:
        weights: as in `ClassifyTextRecipe`.
        own: options that win over those of the weights; where a folder has no config.json, also
            the variant.
        tokenizer: from `find_tokenizer`.
        num_classes: C.
    """
    head = {"head": "classify", "num_classes": num_classes}
    if is_run(weights):
        source = load_mask_run(weights).model
        config = {k: v for k, v in source.get_config().items() if k not in OWN}
        model = type(source)(**config | {"next_sentence": False} | own.overrides() | head)
        model.build((None, None))
        left = copy(by_name(source), model)
    else:
        file = find_checkpoint(weights)
        options = read_options(own.name, file) | {"vocab_size": tokenizer.vocab_size}
        model = create_model(own.name, own.variant, **options | own.overrides() | head)
        left = load_weights(model, file, head=False)
    print(f"{weights}: all weights but {', '.join(left)}")
    return model


def picture_options(weights: str, name: str) -> dict[str, Any]:
    """How the weights of a run or of others are to be computed, by the model `name`, if told."""
    if not is_run(weights):
        return read_options(name, find_checkpoint(weights))
    run = load_classify_run(weights)
    if run.recipe.model.name != name:
        raise ValueError(f"{weights} is of a model {run.recipe.model.name!r}; got {name!r}")
    return {key: value for key, value in run.model.get_config().items() if key not in OWN}


def check_normalisation(weights: str, own: str) -> None:
    """Refuses another normalisation than that of the weights, if they tell one that we have."""
    if is_run(weights):
        theirs = load_classify_run(weights).recipe.data.normalisation
    else:
        told = read_normalisation(find_checkpoint(weights))
        fitting = [name for name, pair in NORMALISATION.items() if told and np.allclose(pair, told)]
        theirs = fitting[0] if fitting else own
    if theirs != own:
        raise ValueError(f"data.normalisation must be {theirs}, as {weights} has it; got {own}")


def start_pictures(model, weights: str, class_names: list[str]) -> list[str]:
    """Fills a model from a run or from others → what stays new: a head for other classes.

    Positions that were learned for images of another size are resized.
    """
    if not is_run(weights):
        return load_weights(model, weights, head=False)
    run = load_classify_run(weights)
    source, is_same = run.model, run.class_names == class_names
    theirs = {n: x for n, x in by_name(source).items() if is_same or not n.startswith("head")}
    if "place/table" in theirs:
        grid = model.grid((None, model.image_size, model.image_size, model.channels))
        theirs["place/table"] = source.place.resize(theirs["place/table"], grid)
    return copy(theirs, model)


def is_run(weights: str) -> bool:
    return (Path(weights) / "recipe.json").exists()


def copy(theirs: dict[str, Any], model) -> list[str]:
    """Puts weights, by their names, into a model where it has them → the names of the rest."""
    ours = by_name(model)
    for name in ours.keys() & theirs.keys():
        if ours[name].shape != theirs[name].shape:
            raise ValueError(
                f"{name} must be {tuple(theirs[name].shape)}, as pretrained; the options of the "
                f"model make it {tuple(ours[name].shape)}"
            )
        ours[name].assign(theirs[name])
    return [name for name in ours if name not in theirs]


def by_name(model) -> dict[str, Any]:
    """The weights by their paths below the model."""
    root = posixpath.commonpath([weight.path for weight in model.weights])
    return {posixpath.relpath(weight.path, root): weight for weight in model.weights}
