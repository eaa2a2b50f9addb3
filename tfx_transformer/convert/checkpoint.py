"""Reads the checkpoints of others, and fills a model from one, whole or not at all."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert.layout import Layout
from tfx_transformer.torch_file import read_torch

TORCH = (".bin", ".pt", ".pth")  # how the files of torch.save end
MOST_LINES = 8  # of an error
HEAD = ("head", "importance/")  # how our weights above the encoder begin


def read_weights(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a `.safetensors`, `.npz` or PyTorch file by name; no code in it is ever run."""
    path = Path(path)
    if path.suffix not in (".safetensors", ".npz", *TORCH):
        known = ", ".join((".safetensors", ".npz", *TORCH))
        raise ValueError(f"weights must be a file that ends in {known}; got {path}")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if path.suffix in TORCH:
        return read_torch(path)
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file)
    from safetensors.numpy import load_file

    return load_file(path)


def find_layout(layouts: Sequence[Layout], weights: Mapping[str, np.ndarray], model: Any) -> Layout:
    """The family to which the weights belong."""
    for layout in layouts:
        for name in weights:
            if match := re.match(layout.mark, name):
                return replace(layout, begin=match[1]).adapt(weights, model)
    known = ", ".join(dict.fromkeys(layout.family for layout in layouts))
    raise ValueError(
        f"unknown {type(model).__name__} weights; known: {known}; "
        f"got {', '.join(list(weights)[:3])}, …"
    )


def fill(model: Any, weights: Mapping[str, np.ndarray], layout: Layout, head: bool) -> list[str]:
    """Assigns the weights → the names of ours that were left as they were.

    Raises an error that lists what is missing, left over or wrongly shaped, before any is assigned.
    """
    entries: dict[str, np.ndarray] = {}
    for name, array in weights.items():
        is_ignored = re.match(layout.unused, name) or (not head and name.startswith(layout.head))
        if not is_ignored:
            entries |= layout.cut(name, np.asarray(array, "float32"), model)
    ready, left, problems = [], [], []
    root = posixpath.commonpath([weight.path for weight in model.weights])
    for weight in model.weights:
        name = posixpath.relpath(weight.path, root)
        above = name.startswith(HEAD)
        if above and not head:
            left.append(name)
            continue
        array, wrong = layout.take(entries, name, weight.shape, model)
        ready.append((weight, array))
        problems += [f"{line}; head=False leaves it" if above else line for line in wrong]
    for name, array in entries.items():
        problems.append(f"{name} {array.shape} has no place in the model{layout.hint(name)}")
    if problems:
        more = len(problems) - MOST_LINES
        raise ValueError(
            f"the {layout.family} weights do not fit the model:\n  "
            + "\n  ".join(problems[:MOST_LINES])
            + (f"\n  and {more} more" if more > 0 else "")
        )
    for weight, array in ready:
        weight.assign(array)
    return left
