"""Images and the captions that describe them.

    load_captions("flickr8k.zip", "captions.token.txt.gz", "train.txt")
    load_captions("photos", "captions.csv", split="validation")
    load_captions("tfds:coco_captions", split="test")
    load_captions("embedded:scenes", split="test")      drawings of one or two objects

Images are in a folder or a zip file, in any sub-folder; for caption files see `formats.py`.
Captions refer to images by file name. Folders in a name must match those of the image's path, as
far as both go. Skipped images and captions are reported.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from posixpath import basename

from tfx_transformer.checks import check_choice
from tfx_transformer.data.captions.formats import Entry, read_entries
from tfx_transformer.data.captions.scenes import SOURCE, encode_png, make_scenes
from tfx_transformer.data.images.files import is_image_name, open_files, read_images
from tfx_transformer.data.images.options import MAX_PIXELS
from tfx_transformer.data.images.sources import select_images
from tfx_transformer.data.sources import (
    check_path,
    describe_files,
    is_text,
    read_lines,
    unknown_source,
)
from tfx_transformer.data.splits import SPLITS, assign_split
from tfx_transformer.data.tfds import find_builder, read_examples, require_prepared, stored_splits

KNOWN_IMAGES = 'a folder, "FILE.zip", "tfds:coco_captions", "embedded:scenes[/COUNT]"'
FEATURES = ("image", "image/filename", "captions")  # of coco_captions in TFDS


@dataclass(frozen=True, eq=False)
class Captions:
    """Encoded images and their captions."""

    name: str
    files: list[str]  # N names of images, as in the captions
    items: Sequence[bytes]  # N, as in `Images`
    texts: list[list[str]]  # the captions of each image, at least one
    skipped: dict[str, str] = field(default_factory=dict)  # {image or caption: reason}

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self):,} images with {sum(map(len, self.texts)):,} captions; "
            f"skipped: {describe_files(self.skipped)}"
        )


Fields = tuple[list[str], Sequence[bytes], list[list[str]], dict[str, str]]  # of `Captions`


def load_captions(
    images: str | Path,
    captions: str | Path | None = None,
    names: str | Path | None = None,
    split: str = "train",
    data_dir: str | Path | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Captions:
    """Reads the encoded images of one split, sorted by name, and their captions.

    Images are checked and kept in memory as by `load_images`.

    Args:
        images: a folder, a zip file, "tfds:coco_captions" (without its split "restval"), or
            "embedded:scenes", where "embedded:scenes/90" has 90 images in each split.
        captions: a file; see `formats.py`. None for TFDS and scenes.
        names: a file with an image name in each line. It decides which images are read; `split`
            then only decides whether captions without an image are reported, for "train". If
            None, a hash of the file name splits the images: a tenth each for validation and test.
            None for TFDS and scenes.
        split: "train", "validation" or "test".
        data_dir: folder of the prepared TFDS data sets; the default of TFDS if None.
        max_pixels: images with more pixels are skipped, before they are decoded.
    """
    check_choice(*SPLITS, split=split)
    scheme, _, rest = str(images).partition(":")
    if scheme in ("tfds", "embedded") and (captions or names):
        raise ValueError(f"{images} has its captions and splits; got {captions=}, {names=}")
    if scheme == "tfds":
        fields = _read_tfds(rest, split, data_dir, max_pixels)
    elif scheme == "embedded":
        fields = _make_scenes(str(images), split)
    else:
        path = check_path(images, KNOWN_IMAGES)
        if not captions:
            raise ValueError(f"captions must be a file with those of {images}; got {captions=}")
        listed = Path(names) if names else None
        fields = _read_files(path, Path(captions), listed, split, max_pixels)
    files, items, texts, skipped = fields
    name = f"{images} ({names or split})"
    if not files:
        raise ValueError(f"{name} has no image with a caption; skipped: {describe_files(skipped)}")
    return Captions(name, files, items, texts, skipped)


def _make_scenes(spec: str, split: str) -> Fields:
    name, _, count = spec.partition("/")
    if name != SOURCE or (count and not count.isdecimal()):
        raise unknown_source(spec, KNOWN_IMAGES)
    texts, images = make_scenes(split, int(count) if count else None)
    files = [f"{split}_{i:05d}.png" for i in range(len(texts))]
    return files, [encode_png(image) for image in images], [[text] for text in texts], {}


def _read_files(
    path: Path, captions: Path, names: Path | None, split: str, max_pixels: int
) -> Fields:
    with open_files(path, KNOWN_IMAGES) as (paths, read):
        entries = read_entries(captions)
        listed = None if names is None else [x.strip() for x in read_lines(names) if x.strip()]
        files, texts, skipped = _join(paths, entries, listed, split)
        items, broken = read_images(list(texts), read, max_pixels)
    skipped |= {files[path]: reason for path, reason in broken.items()}
    return [files[path] for path in items], [*items.values()], [texts[p] for p in items], skipped


def _join(paths: list[str], entries: Iterable[Entry], listed: list[str] | None, split: str):
    """Finds the image of each caption, among those in `listed` or, if it is None, of `split`.

    Returns {path: name}, {path: captions} in the order of the names, and what was skipped.
    """
    skipped = {}
    images = defaultdict(list)  # file name → paths
    for path in filter(is_image_name, paths):
        if is_text(path):
            images[basename(path)].append(path)
        else:
            skipped[ascii(path)] = "a name that is not UTF-8"
    if listed is None:
        in_split = (same for name, same in images.items() if assign_split(name) == split)
        wanted = set(chain.from_iterable(in_split))
    else:
        matches = {name: _find(images, name) for name in listed}
        wanted = {path for path, _ in matches.values() if path}
        skipped |= {name: reason for name, (_, reason) in matches.items() if reason}
    files: dict[str, str] = {}
    texts = defaultdict(list)
    for key, name, text in entries:
        path, reason = _find(images, name)
        if path in wanted:
            files.setdefault(path, name)
            if text.strip():
                texts[path].append(text.strip())
            else:
                skipped[key] = "empty caption"
        elif reason and split == (assign_split(basename(name)) if listed is None else "train"):
            skipped[name or key] = reason
    skipped |= {files.get(path, path): "no caption" for path in sorted(wanted - texts.keys())}
    return files, {path: texts[path] for path in sorted(texts, key=files.__getitem__)}, skipped


def _find(images: dict[str, list[str]], name: str) -> tuple[str, str]:
    """(path, "") of the only image with that name, or ("", reason)."""
    suffix = f"/{name}"
    same = images.get(basename(name), [])
    matches = [path for path in same if suffix.endswith(f"/{path}") or f"/{path}".endswith(suffix)]
    if len(matches) == 1:
        return matches[0], ""
    return "", f"{len(matches)} images of that name" if matches else "no such image"


def _read_tfds(name: str, split: str, data_dir, max_pixels: int) -> Fields:
    builder = find_builder(name, data_dir)
    kinds = builder.info.features.dtype  # nested like the features
    if not isinstance(kinds, dict) or not set(FEATURES) <= kinds.keys():
        raise ValueError(
            f"tfds:{name} has no captions: it must have the features {', '.join(FEATURES)}, as "
            "coco_captions"
        )
    require_prepared(builder, name, data_dir, lazy=True)
    splits = stored_splits(builder)
    if split not in splits:
        raise ValueError(f"tfds:{name} has no split {split}; got {list(builder.info.splits)}")
    source = read_examples(builder, splits[split], FEATURES)
    rows, entries = {}, []
    for row in range(len(source)):
        example = source[row]
        file = example["image/filename"].decode()
        rows[file] = row
        texts = enumerate(example["captions"]["text"])
        entries += [(f"{file}#{index}", file, text.decode()) for index, text in texts]
    _, captions, skipped = _join(list(rows), entries, list(rows), split)
    found = {file: rows[file] for file in captions}
    files, items, broken = select_images(source, found, "image", max_pixels)
    return files, items, [captions[file] for file in files], skipped | broken
