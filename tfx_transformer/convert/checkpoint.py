"""Reads checkpoints of other libraries, and assigns their weights to a model, all or none."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert.keras_file import SUFFIX, read_keras
from tfx_transformer.convert.layout import Layout
from tfx_transformer.convert.torch_file import read_torch
from tfx_transformer.files import read_npz, reading

TORCH_SUFFIXES = (".bin", ".pt", ".pth")
SUFFIXES = (".safetensors", ".npz", *TORCH_SUFFIXES, SUFFIX)
MAX_PROBLEMS = 8  # listed in an error


def read_weights(path: str | Path) -> dict[str, np.ndarray]:
    """Arrays by name from a `.safetensors`, `.npz`, PyTorch or Keras file, without running code."""
    path = Path(path)
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"weights must be a file that ends in {', '.join(SUFFIXES)}; got {path}")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if path.suffix in TORCH_SUFFIXES:
        return read_torch(path)
    if path.suffix == ".npz":
        return read_npz(path)
    if path.name.endswith(SUFFIX):
        return read_keras(path)
    from safetensors.numpy import load_file

    with reading(path):
        return load_file(path)


def weights_by_name(model: Any) -> dict[str, Any]:
    """The weights of a model by their paths below it."""
    root = posixpath.commonpath([weight.path for weight in model.weights])
    return {posixpath.relpath(weight.path, root): weight for weight in model.weights}


def find_layout(layouts: Sequence[Layout], weights: Mapping[str, np.ndarray], model: Any) -> Layout:
    """The layout whose pattern matches the weights."""
    for layout in layouts:
        for name in weights:
            if match := re.match(layout.pattern, name):
                return replace(layout, prefix=match[1]).for_model(weights, model)
    known = ", ".join(dict.fromkeys(layout.family for layout in layouts))
    raise ValueError(
        f"unknown {type(model).__name__} weights; known: {known}; "
        f"got {', '.join(list(weights)[:3])}, …"
    )


def assign_weights(
    model: Any, weights: Mapping[str, np.ndarray], layout: Layout, head: bool = True, path=""
) -> list[str]:
    """Assigns the weights → the names of the model's weights that keep their values.

    Raises an error that names the path of their file and lists missing, unexpected and wrongly
    shaped arrays, before any is assigned.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        is_ignored = re.match(layout.unused, name) or (not head and name.startswith(layout.head))
        if not is_ignored:
            arrays |= layout.split(name, np.asarray(array), model)
    values, kept, problems = [], [], []
    for name, weight in weights_by_name(model).items():
        is_head = name.startswith(layout.model_head)
        if is_head and not head:
            kept.append(name)
            continue
        value, wrong = layout.pop_weight(arrays, name, weight.shape, model)
        values.append((weight, value))
        problems += [f"{line}; head=False skips it" if is_head else line for line in wrong]
    for name, array in arrays.items():
        hint = layout.unexpected_hint(name)
        problems.append(f"{name} {array.shape} has no counterpart in the model{hint}")
    if problems:
        more = len(problems) - MAX_PROBLEMS
        raise ValueError(
            f"the {layout.family} weights{path and f' of {path}'} do not fit the model:\n  "
            + "\n  ".join(problems[:MAX_PROBLEMS])
            + (f"\n  and {more} more" if more > 0 else "")
        )
    for weight, value in values:
        weight.assign(value)
    return kept
