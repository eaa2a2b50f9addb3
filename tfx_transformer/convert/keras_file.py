"""Reads the `.weights.h5` files of Keras, such as those of keras-hub presets, as arrays by name."""

from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.files import check_size, reading

SUFFIX = ".weights.h5"
TASK_WEIGHTS = "task.weights.h5"  # beside the weights of a backbone: those of its head
OLD_PREFIX = "_layer_checkpoint_dependencies/"  # of layers, in files of Keras 2


def read_keras(path: Path) -> dict[str, np.ndarray]:
    """Arrays by their paths in a file; those of a task.weights.h5 beside it begin with "task/"."""
    arrays = read_file(path)
    task = path.parent / TASK_WEIGHTS
    if path.name != TASK_WEIGHTS and task.is_file():
        arrays |= {f"task/{name}": array for name, array in read_file(task).items()}
    return arrays


def read_file(path: Path) -> dict[str, np.ndarray]:
    """The arrays of one file."""
    import h5py

    with reading(path), h5py.File(path, "r") as file:
        return {name: read_dataset(dataset) for name, dataset in datasets(path, file).items()}


def check_file(path: Path) -> None:
    """Raises if a file, for Keras's own reader, holds links, objects or more bytes than allowed."""
    import h5py

    with reading(path), h5py.File(path, "r") as file:
        datasets(path, file)
        groups: list = [file]
        file.visititems(
            lambda _, item: groups.append(item) if isinstance(item, h5py.Group) else None
        )
        for group in groups:
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"{name} must not be a link")


def datasets(path: Path, file) -> dict[str, Any]:
    """The datasets of an open file by name: numbers within the file. Links are not followed."""
    import h5py

    found: dict[str, Any] = {}

    def add(name: str, item) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith("optimizer/"):
            found[name.replace(OLD_PREFIX, "layers/")] = item

    file.visititems(add)
    for name, dataset in found.items():
        is_numeric = is_bfloat16(dataset) or dataset.dtype.kind in "fiub"
        if dataset.is_virtual or dataset.external or not is_numeric:
            raise ValueError(f"{name} must be an array of numbers within the file")
    check_size(path, sum(dataset.nbytes for dataset in found.values()))
    return found


def is_bfloat16(dataset) -> bool:
    """Whether an array was in bfloat16, which HDF5 does not have."""
    return dataset.attrs.get("dtype") == "bfloat16" and dataset.dtype == "V2"


def read_dataset(dataset) -> np.ndarray:
    """The values of a dataset, bfloat16 as float32."""
    if is_bfloat16(dataset):
        return (dataset[()].view("uint16").astype("uint32") << 16).view("float32")
    return dataset[()]
