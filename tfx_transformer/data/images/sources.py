"""Images and their classes from folders, zip files, arrays, TFDS or installed packages.

    load_images("flowers")                      a folder: CLASS/FILE or SPLIT/CLASS/FILE
    load_images("flowers.zip", "test")          the same in a zip file
    load_images("digits.npz", "validation")     x_train, y_train; optional x_val … y_test
    load_images("tfds:cifar10", "test")
    load_images("embedded:mnist")               5,000 scans of 28 × 28 pixels
    load_images("embedded:digits")              1,797 scans of 8 × 8 pixels

The splits are train, validation and test; their folders are train, val or validation, and test. A
missing split is held out from train; see `hold_out_classes` in `splits.py`. Classes are named by
their folders and numbered in sorted order. Skipped files are reported: damaged ones, those with too
many pixels, and all that are not images by their name, except hidden ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow_datasets as tfds
from tqdm import tqdm

from tfx_transformer.checks import check_choice
from tfx_transformer.data.images.arrays import read_npz
from tfx_transformer.data.images.embedded import EMBEDDED
from tfx_transformer.data.images.files import (
    EXTENSIONS,
    check_images,
    encode_png,
    is_image_name,
    open_files,
    read_images,
)
from tfx_transformer.data.images.options import MAX_PIXELS
from tfx_transformer.data.images.stored import IN_MEMORY, list_files, stored_images
from tfx_transformer.data.sources import check_path, describe_files, is_text
from tfx_transformer.data.splits import SPLIT_NAMES, SPLITS, hold_out_classes, split_rows
from tfx_transformer.data.tfds import (
    LazyImages,
    class_features,
    find_builder,
    read_examples,
    require_prepared,
    stored_splits,
)

KNOWN = f'a folder, "FILE.zip", "FILE.npz", "tfds:NAME[/CONFIG]", {", ".join(EMBEDDED)}'
SMALL = "A split of a small data set may be empty: add images, or folders train, val and test"


@dataclass(frozen=True, eq=False)
class Images:
    """Encoded images and their classes.

    `decode` of pixels.py decodes each item.
    """

    name: str
    items: Sequence[bytes]  # N
    labels: np.ndarray  # (N,) int32, indices of `class_names`
    class_names: list[str]  # the same for all splits
    skipped: dict[str, str] = field(default_factory=dict)  # {file: reason}

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self):,} images of {len(self.class_names):,} classes; "
            f"skipped: {describe_files(self.skipped)}"
        )


Fields = tuple[Sequence[bytes], Any, list[str], dict[str, str]]  # of `Images`, but for the name


def load_images(
    spec: str | Path,
    split: str = "train",
    data_dir: str | Path | None = None,
    hold_out: bool = True,
    max_pixels: int = MAX_PIXELS,
    cache: Path | None = None,
) -> Images:
    """Reads the encoded images of one split, and checks that each can be decoded.

    They are kept in memory, with two exceptions. Images of a TFDS data set in array_record files
    are read on access and are not checked. Those of a folder that are over 1 GB, with a `cache`,
    are checked, and read on access.

    Args:
        spec: the source; see the top of this file.
        split: "train", "validation" or "test".
        data_dir: folder of the prepared TFDS data sets; the default of TFDS if None.
        hold_out: whether a missing split is held out from train; if not, it is all of train.
        max_pixels: images with more pixels are skipped, before they are decoded.
        cache: a folder that remembers the checked images of a large folder, by names, sizes and
            times; later calls only compare these.
    """
    check_choice(*SPLITS, split=split)
    scheme, _, rest = str(spec).partition(":")
    if scheme == "tfds":
        fields = _read_tfds(rest, split, data_dir, hold_out, max_pixels)
    elif str(spec) in EMBEDDED:
        fields = _read_embedded(str(spec), split, hold_out)
    elif (path := check_path(spec, KNOWN)).suffix.lower() == ".npz" and path.exists():
        fields = _read_npz(path, split, hold_out)
    else:
        with open_files(path, KNOWN) as (names, read):
            fields = _read_files(path, names, read, split, hold_out, max_pixels, cache)
    items, labels, class_names, skipped = fields
    name, counts = f"{spec} ({split})", np.bincount(labels, minlength=len(class_names))
    hint = f"skipped: {describe_files(skipped)}" + ("" if skipped else f". {SMALL}" * hold_out)
    if not len(items):
        raise ValueError(f"{name} has no usable image; {hint}")
    if split == "train" and not counts.all():
        raise ValueError(
            f"{name}: every class must have a usable image; {class_names[counts.argmin()]!r} has "
            f"none; {hint}"
        )
    return Images(name, items, np.asarray(labels, "int32"), class_names, skipped)


def select_images(
    source: Sequence[dict] | dict[int, dict],
    rows: dict[str, int],
    feature: str,
    max_pixels: int = MAX_PIXELS,
) -> tuple[list[str], Sequence[bytes], dict[str, str]]:
    """Names, encoded images and {name: reason} of the skipped ones; unchecked if source is lazy.

    The source is from `read_examples`, `rows` are {name: row} of the images.
    """
    if not isinstance(source, dict):
        return list(rows), LazyImages(source, list(rows.values()), feature), {}
    images, skipped = read_images(list(rows), lambda name: source[rows[name]][feature], max_pixels)
    return list(images), list(images.values()), skipped


def _check_classes(where, class_names: list[str]) -> None:
    if len(class_names) < 2:
        raise ValueError(f"{where} must have at least two classes; got {', '.join(class_names)}")


class ImageFile(NamedTuple):
    """A file of a data set in class folders."""

    inner: list[str]  # [class, file], without outer folders
    split: str  # that of its folder; "train" if there are no split folders
    name: str  # the whole path


def _read_files(
    where: Path,
    names: list[str],
    read: Callable[[str], bytes],
    split: str,
    hold_out: bool,
    max_pixels: int,
    cache: Path | None,
) -> Fields:
    """Images from class folders, in memory or on access; `names` and `read` are of `open_files`."""

    def find(load):
        return _read_tree(where, names, lambda x: load(x, read, max_pixels), split, hold_out)

    if cache and where.is_dir():
        size, key = list_files(where, names)
        if size > IN_MEMORY:
            own = cache / f"images-{key}" / f"{split}-{hold_out}-{max_pixels}"
            return stored_images(where, own, max_pixels, lambda: find(check_images))
    images, labels, class_names, skipped = find(read_images)
    return list(images.values()), labels, class_names, skipped


def _read_tree(
    where: Path,
    paths: list[str],
    load: Callable[[list[str]], tuple[dict[str, Any], dict[str, str]]],
    split: str,
    hold_out: bool,
) -> tuple[dict[str, Any], list[int], list[str], dict[str, str]]:
    """The images of a split in class folders, as `load` gives them: {path: image}, and the skipped.

    Files that belong to no split are reported for train.
    """
    others = {
        ascii(name): "a name that is not UTF-8"
        for name in paths
        if not is_text(name) and not name.endswith("/")
    }
    names = list(filter(is_text, paths))
    files = _find_splits(where, names)
    images = sorted(file for file in files if is_image_name(file.name))
    class_names = sorted({file.inner[0] for file in files if len(file.inner) > 1})
    if all(len(file.inner) == 1 for file in images):
        raise ValueError(f"{where} must have a folder for each class; got {images[0].name}")
    for file in images:
        if len(file.inner) > 2:
            raise ValueError(
                f"{where}: image paths must be CLASS/FILE or SPLIT/CLASS/FILE, where SPLIT is "
                f"one of {', '.join(SPLIT_NAMES)}; got {file.name}"
            )
    _check_classes(where, class_names)
    present = {file.split for file in images}
    if "train" not in present and (hold_out or split not in present):
        raise ValueError(f"{where} must have a folder train; got {', '.join(sorted(present))}")
    stored = split if split in present else "train"
    reported = split if hold_out else stored
    folders = {file.name: file.split for file in files}
    skipped = {
        name: "no known image extension"
        for name in sorted(names)
        if not name.endswith("/")
        and not is_image_name(name)
        and folders.get(name, "train") == reported
    } | (others if reported == "train" else {})
    wanted = [file for file in images if file.split == stored]
    keys = {"/".join(file.inner): file.inner[0] for file in wanted if len(file.inner) > 1}
    if hold_out and stored == "train":
        splits = hold_out_classes(keys, present)
    else:
        splits = dict.fromkeys(keys, split)
    indices = {name: index for index, name in enumerate(class_names)}
    labels = {}
    for file in wanted:
        if splits.get("/".join(file.inner)) == split:
            labels[file.name] = indices[file.inner[0]]
        elif len(file.inner) == 1 and stored == reported:
            skipped[file.name] = "not in a class folder"
    items, reasons = load(list(labels))
    return items, [labels[name] for name in items], class_names, skipped | reasons


def _find_splits(where: Path, names: list[str]) -> list[ImageFile]:
    """Removes a single outer folder, and then the split folders, from the paths."""
    parts = {name: name.split("/") for name in names}
    images = [inner for name, inner in parts.items() if is_image_name(name)]
    if not images:
        raise ValueError(f"{where} has no images; known extensions: {' '.join(EXTENSIONS)}")
    tops = {inner[0] for inner in images}
    if len(tops) == 1 and all(len(inner) > 2 for inner in images) and not _are_splits(tops):
        parts = {name: inner[1:] for name, inner in parts.items() if inner[0] in tops}
        images = [inner[1:] for inner in images]
    tops = {inner[0] for inner in images if len(inner) > 1}
    splits = {top: SPLIT_NAMES[top.lower()] for top in tops} if _are_splits(tops) else {}
    return [
        ImageFile(inner[inner[0] in splits :], splits.get(inner[0], "train"), name)
        for name, inner in parts.items()
        if not splits or inner[0] in splits or len(inner) == 1
    ]


def _are_splits(folders: set[str]) -> bool:
    return bool(folders) and {folder.lower() for folder in folders} <= SPLIT_NAMES.keys()


def _read_npz(path: Path, split: str, hold_out: bool) -> Fields:
    arrays, class_names = read_npz(path)
    _check_classes(path, class_names)
    stored, rows = split_rows({key: len(y) for key, (_, y) in arrays.items()}, split, hold_out)
    pixels, labels = arrays[stored]
    return [encode_png(pixels[row]) for row in rows], labels[rows], class_names, {}


def _read_embedded(name: str, split: str, hold_out: bool) -> Fields:
    pixels, labels = EMBEDDED[name](split, hold_out)
    return [encode_png(image) for image in pixels], labels, list("0123456789"), {}


def _read_tfds(name: str, split: str, data_dir, hold_out: bool, max_pixels: int) -> Fields:
    builder = find_builder(name, data_dir)
    image, label = class_features(name, builder.info, tfds.features.Image)
    require_prepared(builder, name, data_dir, lazy=True)
    splits = stored_splits(builder)
    if "train" not in splits:
        raise ValueError(f"tfds:{name} must have a split train; got {list(builder.info.splits)}")
    class_names = list(builder.info.features[label].names)
    _check_classes(f"tfds:{name}", class_names)
    counts = {key: builder.info.splits[value].num_examples for key, value in splits.items()}
    stored, rows = split_rows(counts, split, hold_out)
    source = read_examples(builder, splits[stored], (image, label), set(rows))
    bar = tqdm(rows, "reading labels", disable=None, leave=False)
    labels = {f"{splits[stored]}#{row}": int(source[row][label]) for row in bar}
    if min(labels.values(), default=0) < 0:
        raise ValueError(f"tfds:{name} has no labels in its split {splits[stored]}")
    found = dict(zip(labels, rows, strict=True))
    names, items, skipped = select_images(source, found, image, max_pixels)
    return items, [labels[key] for key in names], class_names, skipped
