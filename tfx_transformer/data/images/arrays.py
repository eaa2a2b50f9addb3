"""Images and labels from the arrays of an .npz file."""

from pathlib import Path

import numpy as np

from tfx_transformer import files

MAX_CLASSES = 2**20
SUFFIXES = {"train": "train", "validation": "val", "test": "test"}  # of x_train, y_train, …


def read_npz(path: Path) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[str]]:
    """{split: (pixels (N, h, w) or (N, h, w, C), labels (N,))} of a file, and the class names."""
    arrays = files.read_npz(path, files.MAX_PIXEL_RATIO)
    names = arrays.pop("class_names", None)
    pairs = {
        split: (arrays[f"x_{suffix}"], arrays[f"y_{suffix}"])
        for split, suffix in SUFFIXES.items()
        if {f"x_{suffix}", f"y_{suffix}"} <= arrays.keys()
    }
    if "train" not in pairs or len(arrays) > 2 * len(pairs):
        raise ValueError(
            f"{path} must have x_train and y_train, and may have x_val with y_val, x_test with "
            f"y_test, and class_names; got {', '.join(arrays) or 'none of them'}"
        )
    checked = {
        split: (x, _check_arrays(f"{path}, {SUFFIXES[split]}", x, y))
        for split, (x, y) in pairs.items()
    }
    count = 1 + max(y.max(initial=-1) for _, y in checked.values())
    names = np.arange(count).astype(str) if names is None else names
    if names.ndim != 1 or names.dtype.kind != "U" or len(names) < count:
        raise ValueError(
            f"{path}: class_names must be a string for each of {count} labels; got {names.dtype} "
            f"of shape {names.shape}"
        )
    with files.reading(path):  # strings may be no Unicode
        return checked, names.tolist()


def _check_arrays(where: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Checks pixels and labels; returns the labels in shape (N,)."""
    if x.dtype != np.uint8:
        raise ValueError(
            f"{where}: pixels must be whole numbers in 0..255, saved as uint8, for example "
            f"(x * 255).round().astype('uint8') if they are in 0..1; got {x.dtype}"
        )
    if x.ndim != 3 and (x.ndim != 4 or x.shape[3] not in (1, 3)) or 0 in x.shape[1:]:
        raise ValueError(
            f"{where}: pixels must have shape (N, h, w), (N, h, w, 1) or (N, h, w, 3); "
            f"got {x.shape}"
        )
    if y.shape not in ((len(x),), (len(x), 1)) or y.dtype.kind not in "iu" or (y < 0).any():
        raise ValueError(
            f"{where}: labels must be whole numbers from 0 on, one for each of the {len(x)} "
            f"images; got {y.dtype} of shape {y.shape}"
        )
    if (y >= MAX_CLASSES).any():
        raise ValueError(f"{where}: labels must be less than {MAX_CLASSES:,}; got {y.max()}")
    return y.reshape(-1).astype("int32")
