"""The way in: weights of others by the class of the model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert import bert, gpt, mlp_mixer, swin, vit
from tfx_transformer.convert.checkpoint import fill, find_layout, read_weights
from tfx_transformer.convert.hub import find_checkpoint
from tfx_transformer.convert.layout import Layout

LAYOUTS: dict[str, Sequence[Layout]] = {  # by the name of a class in models/, which lies above
    "BERT": bert.LAYOUTS,
    "GPT": gpt.LAYOUTS,
    "MLPMixer": mlp_mixer.LAYOUTS,
    "Swin": swin.LAYOUTS,
    "ViT": vit.LAYOUTS,
}


def load_weights(
    model: Any, weights: str | Path | Mapping[str, np.ndarray], head: bool = True
) -> list[str]:
    """Fills a model from a checkpoint, whole or not at all.

    Args:
        model: a `ViT`, `Swin`, `MLPMixer`, `BERT` or `GPT` with the checkpoint's sizes; the options
            that it needs stand at the top of the file of the same name.
        weights: a file for `read_weights`, a folder with one, `hf:OWNER/NAME` on the Hugging Face
            Hub, or the arrays by name.
        head: whether to load the head too; False for another number of classes.

    Returns:
        The names of the model's weights that were left as they were.
    """
    layouts = find_layouts(model)
    if not isinstance(weights, Mapping):
        weights = read_weights(find_checkpoint(weights))
    if not model.built:
        model.build(input_shape(model))
    return fill(model, weights, find_layout(layouts, weights, model), head)


def input_shape(model: Any) -> tuple[int | None, ...]:
    """Of images (B, h, w, C), or of tokens (B, T) for a model that reads text."""
    if not hasattr(model, "image_size"):
        return None, None
    return None, model.image_size, model.image_size, model.channels


def find_layouts(model: Any) -> Sequence[Layout]:
    """The families of checkpoints for the model, or for the class that it extends."""
    for part in type(model).__mro__:
        if part.__name__ in LAYOUTS:
            return LAYOUTS[part.__name__]
    known = ", ".join(LAYOUTS)
    raise ValueError(f"there are weights of others for {known}; got {type(model).__name__}")
