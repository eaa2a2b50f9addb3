"""Pictures and their classes from folders, zip files, arrays, TFDS or scikit-learn, by one spec.

    load_images("flowers")                      a folder: CLASS/FILE or SPLIT/CLASS/FILE
    load_images("flowers.zip", "test")          the same in a zip file
    load_images("digits.npz", "validation")     x_train, y_train and, if there, x_val ... y_test
    load_images("tfds:cifar10", "test")
    load_images("embedded:digits")              1,797 scans of 8 × 8

The splits are train, validation and test; their folders are train, val or validation, and test. A
split that a source has not is cut from its training set: a tenth, by a hash of the file's path or
of the row's number, so that no picture ever moves when others come. A class is named by its folder,
and numbered in the order of the sorted names. What is left out is named.
"""

import re
import zipfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tfx_transformer.checks import check_choice
from tfx_transformer.data.pictures import ENDINGS, encode_png, is_picture, open_files, read_pictures
from tfx_transformer.data.prepared import (
    check_prepared,
    class_features,
    find_builder,
    read_classes,
)
from tfx_transformer.data.splits import SPLITS, split_of

KNOWN = 'a folder, "FILE.zip", "FILE.npz", "tfds:NAME[/CONFIG]", "embedded:digits"'
UNLABELLED = ("imagenet2012",)  # TFDS sets whose test split hides the classes
SMALL = "In a small set a split may be missed: add pictures, or make folders train, val and test"
FOLDERS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}


@dataclass(frozen=True, eq=False)
class Images:
    """Encoded pictures and their classes.

    Args:
        name: where they come from.
        items: N encoded pictures, each of which `tf.io.decode_image(item, channels=3,
            expand_animations=False)` decodes.
        labels: (N,) int32, places in `class_names`.
        class_names: the same for all splits.
        skipped: file → why it was left out.
    """

    name: str
    items: Sequence[bytes]
    labels: np.ndarray
    class_names: list[str]
    skipped: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self):,} pictures of {len(self.class_names):,} classes; "
            f"skipped: {_name_some(self.skipped)}"
        )


Found = tuple[Sequence[bytes], Any, list[str], dict[str, str]]  # `Images` without a name


def load_images(
    spec: str | Path, split: str = "train", data_dir: str | Path | None = None, cut: bool = True
) -> Images:
    """Reads the pictures of one split, still encoded, and checks that each can be decoded.

    They are held in memory, but for a TFDS set in array_record files: its pictures are read when
    they are asked for, and are not checked.

    Args:
        spec: what to read; see the top of this file.
        split: "train", "validation" or "test".
        data_dir: where TFDS keeps its prepared sets; its own default if None.
        cut: whether a split that is not there is cut from train, a tenth of it by a hash of the
            names; if not, all of train stands for it.
    """
    check_choice(*SPLITS, split=split)
    scheme, _, rest = str(spec).partition(":")
    if scheme == "tfds":
        found = _read_tfds(rest, split, data_dir, cut)
    elif spec == "embedded:digits":
        found = _read_digits(split, cut)
    elif not isinstance(spec, str | Path) or re.match(r"[A-Za-z]\w+:", str(spec)):  # "C:": a drive
        raise ValueError(f"unknown source {spec!r}; known: {KNOWN}")
    else:
        found = _read_path(Path(spec), split, cut)
    items, labels, class_names, skipped = found
    name, counts = f"{spec} ({split})", np.bincount(labels, minlength=len(class_names))
    left_out = f"skipped: {_name_some(skipped)}" + ("" if skipped else f". {SMALL}" * cut)
    if not len(items):
        raise ValueError(f"{name} holds no usable picture; {left_out}")
    if split == "train" and not counts.all():
        raise ValueError(
            f"{name}: every class must have a usable picture; {class_names[counts.argmin()]!r} has "
            f"none; {left_out}"
        )
    return Images(name, items, np.asarray(labels, "int32"), class_names, skipped)


def _name_some(skipped: dict[str, str], count: int = 5) -> str:
    if not skipped:
        return "none"
    some = [f"{file}: {reason}" for file, reason in list(skipped.items())[:count]]
    return f"{len(skipped):,} ({', '.join(some + ['…'] * (len(skipped) > count))})"


def _check_classes(where, class_names: list[str]) -> None:
    if len(class_names) < 2:
        raise ValueError(f"{where} must have at least two classes; got {', '.join(class_names)}")


def _belongs(own: str, key: str, present: Collection[str], split: str, cut: bool) -> bool:
    """Whether a picture is in a split: in its own, or in one that its key cuts from train."""
    if not cut:
        return own == (split if split in present else "train")
    drawn = split_of(key)
    return split == (drawn if own == "train" and drawn not in present else own)


def _rows(counts: dict[str, int], split: str, cut: bool) -> tuple[str, list[int]]:
    """Where a split lies: the stored split that holds it, and its rows there.

    Args:
        counts: how many rows each stored split has.
        split: the one to find.
        cut: as in `load_images`.
    """
    own = split if split in counts else "train"
    rows = range(counts[own])
    return own, [row for row in rows if _belongs(own, str(row), counts, split, cut)]


def _read_path(path: Path, split: str, cut: bool) -> Found:
    if not path.exists():
        raise FileNotFoundError(f"no such file or folder: {path}")
    if path.suffix.lower() == ".npz":
        return _read_npz(path, split, cut)
    if not path.is_dir() and path.suffix.lower() != ".zip":
        raise ValueError(f"unknown source {str(path)!r}; known: {KNOWN}")
    with open_files(path) as (names, read):
        return _read_tree(path, names, read, split, cut)


class File(NamedTuple):
    """A file below class folders.

    Args:
        inner: [class, file], without what lies above.
        split: whose folder it is in; "train" if there are none.
        name: the whole path.
    """

    inner: list[str]
    split: str
    name: str


def _read_tree(
    where: Path, names: list[str], read: Callable[[str], bytes], split: str, cut: bool
) -> Found:
    """Reads pictures from class folders.

    Args:
        where: for messages.
        names: paths below `where` of all files and, ending in "/", of folders.
        read: gives the bytes of a name.
        split, cut: as in `load_images`.
    """
    files = _arrange(where, names)
    pictures = sorted(file for file in files if is_picture(file.name))
    class_names = sorted({file.inner[0] for file in files if len(file.inner) > 1})
    if all(len(file.inner) == 1 for file in pictures):
        raise ValueError(f"{where} must have a folder for each class; got {pictures[0].name}")
    for file in pictures:
        if len(file.inner) > 2:
            raise ValueError(
                f"{where}: a picture must lie in CLASS/FILE or SPLIT/CLASS/FILE, where SPLIT is "
                f"one of {', '.join(FOLDERS)}; got {file.name}"
            )
    _check_classes(where, class_names)
    present = {file.split for file in pictures}
    if "train" not in present and (cut or split not in present):
        raise ValueError(f"{where} must have a folder train; got {', '.join(sorted(present))}")
    numbers = {name: number for number, name in enumerate(class_names)}
    wanted, skipped = {}, {}
    for file in pictures:
        if not _belongs(file.split, "/".join(file.inner), present, split, cut):
            continue
        if len(file.inner) == 1:
            skipped[file.name] = "not in a class folder"
        else:
            wanted[file.name] = numbers[file.inner[0]]
    items, reasons = read_pictures(list(wanted), read)
    labels = [wanted[name] for name in items]
    return list(items.values()), labels, class_names, skipped | reasons


def _arrange(where: Path, names: list[str]) -> list[File]:
    """Takes a folder around all, and then the folders of the splits, off the names."""
    parts = {name: name.split("/") for name in names}
    pictures = [inner for name, inner in parts.items() if is_picture(name)]
    if not pictures:
        raise ValueError(f"{where} holds no picture; known endings: {' '.join(ENDINGS)}")
    tops = {inner[0] for inner in pictures}
    if len(tops) == 1 and all(len(inner) > 2 for inner in pictures) and not _are_splits(tops):
        parts = {name: inner[1:] for name, inner in parts.items() if inner[0] in tops}
        pictures = [inner[1:] for inner in pictures]
    tops = {inner[0] for inner in pictures if len(inner) > 1}
    if not _are_splits(tops):
        return [File(inner, "train", name) for name, inner in parts.items()]
    splits = {top: FOLDERS[top.lower()] for top in tops}
    return [
        File(inner[1:], splits[inner[0]], name)
        if inner[0] in splits
        else File(inner, "train", name)
        for name, inner in parts.items()
        if inner[0] in splits or len(inner) == 1
    ]


def _are_splits(folders: set[str]) -> bool:
    return bool(folders) and {folder.lower() for folder in folders} <= FOLDERS.keys()


def _read_npz(path: Path, split: str, cut: bool) -> Found:
    arrays = _load_arrays(path)
    names = arrays.pop("class_names", None)
    shorts = {"train": "train", "validation": "val", "test": "test"}
    pairs = {
        own: (arrays[f"x_{short}"], arrays[f"y_{short}"])
        for own, short in shorts.items()
        if {f"x_{short}", f"y_{short}"} <= arrays.keys()
    }
    if "train" not in pairs or len(arrays) > 2 * len(pairs):
        raise ValueError(
            f"{path} must hold x_train and y_train, and may hold x_val with y_val, x_test with "
            f"y_test, and class_names; got {', '.join(arrays) or 'none of them'}"
        )
    labels = {own: _check_arrays(f"{path}, {shorts[own]}", x, y) for own, (x, y) in pairs.items()}
    count = 1 + max(y.max(initial=-1) for y in labels.values())
    names = np.arange(count).astype(str) if names is None else names
    if names.ndim != 1 or names.dtype.kind != "U" or len(names) < count:
        raise ValueError(
            f"{path}: class_names must be a text for each of {count} labels; got {names.dtype} of "
            f"shape {names.shape}"
        )
    class_names = names.tolist()
    _check_classes(path, class_names)
    own, rows = _rows({own: len(y) for own, y in labels.items()}, split, cut)
    items = [encode_png(pairs[own][0][row]) for row in rows]
    return items, labels[own][rows], class_names, {}


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path), np.load(path, allow_pickle=False) as file:
            return dict(file)
    except Exception as error:  # a broken file can raise anything
        raise ValueError(f"{path} is not a whole .npz file of plain arrays ({error})") from error


def _check_arrays(where: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Raises if pixels or labels are not as they must be; gives the labels in shape (N,)."""
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
            f"pictures; got {y.dtype} of shape {y.shape}"
        )
    return y.reshape(-1).astype("int32")


def _read_digits(split: str, cut: bool) -> Found:
    from sklearn.datasets import load_digits

    digits = load_digits()
    _, rows = _rows({"train": len(digits.target)}, split, cut)
    pixels = np.round(digits.images[rows] * 255 / 16).astype("uint8")  # (N, 8, 8), were in 0..16
    class_names = [str(digit) for digit in range(10)]
    return [encode_png(picture) for picture in pixels], digits.target[rows], class_names, {}


def _read_tfds(name: str, split: str, data_dir, cut: bool) -> Found:
    builder = find_builder(name, data_dir)
    picture, label = class_features(name, builder.info)
    check_prepared(builder, name, data_dir, lazy=True)
    stored = {FOLDERS[key]: key for key in builder.info.splits if key in FOLDERS}
    if builder.info.name in UNLABELLED:  # the test set of papers is its validation split
        stored = {"train": stored["train"], "test": stored["validation"]}
    if "train" not in stored:
        raise ValueError(f"tfds:{name} must have a split train; got {list(builder.info.splits)}")
    class_names = list(builder.info.features[label].names)
    _check_classes(f"tfds:{name}", class_names)
    counts = {own: builder.info.splits[key].num_examples for own, key in stored.items()}
    own, rows = _rows(counts, split, cut)
    items, labels = read_classes(builder, stored[own], rows, picture, label)
    if min(labels, default=0) < 0:
        raise ValueError(f"tfds:{name} does not tell the classes of its split {stored[own]}")
    if not isinstance(items, list):
        return items, labels, class_names, {}
    numbered = {f"{stored[own]}#{row}": item for row, item in zip(rows, items, strict=True)}
    wanted = dict(zip(numbered, labels, strict=True))
    kept, skipped = read_pictures(list(numbered), numbered.__getitem__)
    return list(kept.values()), [wanted[number] for number in kept], class_names, skipped
