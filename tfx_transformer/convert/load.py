"""Loads checkpoints from timm, Hugging Face, keras-hub and the papers' authors into our models."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert import bert, efficientnet_lite, gpt, mlp_mixer, swin, vit
from tfx_transformer.convert.checkpoint import assign_weights, find_layout, read_weights
from tfx_transformer.convert.hub import find_checkpoint
from tfx_transformer.convert.layout import Layout
from tfx_transformer.convert.options import read_options
from tfx_transformer.models import BERT, GPT, MLPMixer, Swin, ViT, create_model
from tfx_transformer.models.efficientnet_lite import EfficientNetLite0

LAYOUTS: dict[type, Sequence[Layout]] = {
    BERT: bert.LAYOUTS,
    EfficientNetLite0: efficientnet_lite.LAYOUTS,
    GPT: gpt.LAYOUTS,
    MLPMixer: mlp_mixer.LAYOUTS,
    Swin: swin.LAYOUTS,
    ViT: vit.LAYOUTS,
}


def load_weights(
    model: Any, weights: str | Path | Mapping[str, np.ndarray], head: bool = True
) -> list[str]:
    """Loads a checkpoint of another library into a model, all weights or none.

    Args:
        model: a `ViT`, `Swin`, `MLPMixer`, `BERT`, `GPT` or `EfficientNetLite0` with the
            checkpoint's sizes; see the docstring of the file of the same name for the options that
            it needs.
        weights: a file for `read_weights`, a folder with one, `hf:OWNER/NAME` on the Hugging Face
            Hub, `keras_hub:PRESET`, or arrays by name.
        head: whether to load the head too; False for another number of classes.

    Returns:
        The names of the model's weights that were not loaded.
    """
    layouts = find_layouts(model)
    path = "" if isinstance(weights, Mapping) else find_checkpoint(weights)
    if not isinstance(weights, Mapping):
        weights = read_weights(path)
    if not model.built:
        model.build(model.input_shapes())
    return assign_weights(model, weights, find_layout(layouts, weights, model), head, path)


def load_pretrained(name: str, weights: str | Path, variant: str | None = None, **overrides):
    """Creates a model with pretrained weights: `load_pretrained("vit", "hf:google/vit-base-…")`.

    Args:
        name: a name in MODELS.
        weights: a file, a folder, `hf:OWNER/NAME` on the Hugging Face Hub, or `keras_hub:` and a
            preset of keras-hub: its name, kaggle://… or hf://…. A config.json beside the weights
            gives the model's options, which win over those of the variant.
        variant: a variant of the model; not needed with a config.json.
        overrides: options that win over both. A head or number of classes that differs from the
            config.json gets a new head with its initial values.
    """
    checkpoint = find_checkpoint(weights)
    config = read_options(name, checkpoint)
    try:
        model = create_model(name, variant, **config | overrides)
    except ValueError as error:
        if config or variant is not None:
            raise
        raise ValueError(f"{checkpoint.parent} has no config.json: {error}") from error
    new_head = any(
        overrides[option] != config.get(option)
        for option in overrides.keys() & {"head", "num_classes"}
    )
    load_weights(model, checkpoint, head=not (config and new_head))
    return model


def find_layouts(model: Any) -> Sequence[Layout]:
    """The layouts for the class of the model, or for the class that it extends."""
    for base in type(model).__mro__:
        if base in LAYOUTS:
            return LAYOUTS[base]
    known = ", ".join(kind.__name__ for kind in LAYOUTS)
    raise ValueError(f"model must be one of {known}; got {type(model).__name__}")
