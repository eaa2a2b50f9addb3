"""Pictures and the sentences that describe them.

    load_captions("flickr8k.zip", "captions.token.txt.gz", "train.txt")
    load_captions("photos", "captions.csv", split="validation")
    load_captions("tfds:coco_captions", split="test")

Pictures lie in a folder or a zip file, in any sub-folder. Captions are known in four forms, each
plain or .gz, and told apart by what is in the file:

    1.jpg#0<TAB>A dog runs .                                    as Flickr8k has them
    image,caption                                               a CSV; also file or file_name
    {"images": [{"id": 7, "file_name": "1.jpg"}],               as COCO has them
     "annotations": [{"image_id": 7, "caption": "A dog"}]}
    {"1.jpg": ["A dog runs .", "A brown dog"]}

A name finds the picture of that file name. If it names folders too, those that both the name and
the picture's path tell must be the same. What is left out is named.
"""

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import tensorflow_datasets as tfds

from tfx_transformer.checks import check_choice
from tfx_transformer.data.images import FOLDERS, _name_some
from tfx_transformer.data.pictures import is_picture, open_files, read_pictures
from tfx_transformer.data.prepared import LazyPictures, check_prepared, find_builder
from tfx_transformer.data.sources import _read_lines
from tfx_transformer.data.splits import SPLITS, split_of

KNOWN_IMAGES = 'a folder, "FILE.zip", "tfds:coco_captions"'
KNOWN_CAPTIONS = (
    "NAME#NUMBER<TAB>CAPTION, a CSV with the columns image (or file, file_name) and caption, JSON "
    'as {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}, or JSON as '
    '{"NAME": ["CAPTION", ...]}'
)
IMAGE_COLUMNS = ("image", "file", "file_name")

_TOKEN = re.compile(r"([^\t]+)#(\d+)\t(.*)")
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which UTF-8 cannot hold


@dataclass(frozen=True, eq=False)
class Captions:
    """Encoded pictures and the captions of each.

    Args:
        name: where they come from.
        files: N names of pictures, as the captions name them.
        items: N encoded pictures, as those of `Images`.
        texts: of each picture the captions, at least one.
        skipped: picture or caption → why it was left out.
    """

    name: str
    files: list[str]
    items: Sequence[bytes]
    texts: list[list[str]]
    skipped: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self):,} pictures with {sum(map(len, self.texts)):,} captions; "
            f"skipped: {_name_some(self.skipped)}"
        )


Entry = tuple[str, str, str]  # a caption: what to call it, the name of its picture, its text
Found = tuple[list[str], Sequence[bytes], list[list[str]], dict[str, str]]  # `Captions`, unnamed


def load_captions(
    images: str | Path,
    captions: str | Path | None = None,
    names: str | Path | None = None,
    split: str = "train",
    data_dir: str | Path | None = None,
) -> Captions:
    """Reads the pictures of one split, still encoded, and their captions.

    Pictures come in the order of their names; they are checked and held in memory as those of
    `load_images`.

    Args:
        images: a folder, a zip file, or "tfds:coco_captions"; of COCO's four parts in TFDS
            "restval" is not read.
        captions: a file; see the top of this file. None for TFDS.
        names: a file with the name of a picture in each line: these are read, whatever `split`
            says; captions of pictures that are not there are told with "train". None for TFDS; if
            None elsewhere, a hash of the file name splits the pictures: a tenth each for
            validation and test.
        split: "train", "validation" or "test".
        data_dir: where TFDS keeps its prepared sets; its own default if None.
    """
    check_choice(*SPLITS, split=split)
    scheme, _, rest = str(images).partition(":")
    if scheme == "tfds":
        if captions or names:
            raise ValueError(f"{images} brings its captions and splits; got {captions=}, {names=}")
        found = _read_tfds(rest, split, data_dir)
    elif not isinstance(images, str | Path) or re.match(r"[A-Za-z]\w+:", str(images)):
        raise ValueError(f"unknown source {images!r}; known: {KNOWN_IMAGES}")  # "C:" is a drive
    elif not captions:
        raise ValueError(f"captions must be a file with those of {images}; got {captions=}")
    else:
        found = _read_files(Path(images), Path(captions), Path(names) if names else None, split)
    files, items, texts, skipped = found
    name = f"{images} ({names or split})"
    if not files:
        raise ValueError(f"{name} holds no picture with a caption; skipped: {_name_some(skipped)}")
    return Captions(name, files, items, texts, skipped)


def _read_files(path: Path, captions: Path, names: Path | None, split: str) -> Found:
    if not path.exists():
        raise FileNotFoundError(f"no such file or folder: {path}")
    if not path.is_dir() and path.suffix.lower() != ".zip":
        raise ValueError(f"unknown source {str(path)!r}; known: {KNOWN_IMAGES}")
    entries = _read_entries(captions)
    listed = None if names is None else [x.strip() for x in _read_lines(names) if x.strip()]
    with open_files(path) as (paths, read):
        files, texts, skipped = _join(paths, entries, listed, split)
        items, broken = read_pictures(list(texts), read)
    skipped |= {files[path]: reason for path, reason in broken.items()}
    return [files[path] for path in items], [*items.values()], [texts[p] for p in items], skipped


def _join(paths: list[str], entries: Iterable[Entry], listed: list[str] | None, split: str):
    """Brings captions and pictures together.

    Args:
        paths: of all files.
        entries: all captions.
        listed: names of the pictures that are wanted, or None:
        split: then those of this split are.

    Returns:
        By path the name and the captions of each picture, these in the order of the names; and
        what was left out.
    """
    skipped = {}
    pictures = defaultdict(list)  # file name → paths
    for path in filter(is_picture, paths):
        if _is_text(path):
            pictures[_file_name(path)].append(path)
        else:
            skipped[ascii(path)] = "a name that is not UTF-8"
    if listed is None:
        own = (same for name, same in pictures.items() if split_of(name) == split)
        wanted = set(chain.from_iterable(own))
    else:
        found = {name: _find(pictures, name) for name in listed}
        wanted = {path for path, _ in found.values() if path}
        skipped |= {name: reason for name, (_, reason) in found.items() if reason}
    files: dict[str, str] = {}
    texts = defaultdict(list)
    for key, name, text in entries:
        path, reason = _find(pictures, name)
        if path in wanted:
            files.setdefault(path, name)
            if text.strip():
                texts[path].append(text.strip())
            else:
                skipped[key] = "empty caption"
        elif reason and split == (split_of(_file_name(name)) if listed is None else "train"):
            skipped[name or key] = reason
    skipped |= {files.get(path, path): "no caption" for path in sorted(wanted - texts.keys())}
    return files, {path: texts[path] for path in sorted(texts, key=files.__getitem__)}, skipped


def _find(pictures: dict[str, list[str]], name: str) -> tuple[str, str]:
    """The path of the one picture of that name, or ""; and then why there is none."""
    own = f"/{name}"
    same = pictures.get(_file_name(name), [])
    found = [path for path in same if own.endswith(f"/{path}") or f"/{path}".endswith(own)]
    if len(found) == 1:
        return found[0], ""
    return "", f"{len(found)} pictures of that name" if found else "no such picture"


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def _is_text(value) -> bool:
    return isinstance(value, str) and not _SURROGATE.search(value)


def _read_entries(path: Path) -> list[Entry]:
    """All captions of a file of any known form."""
    lines = _read_lines(path)
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("{"):
        return list(_read_json(path, "\n".join(lines)))
    if _TOKEN.fullmatch(first):
        return list(_read_tokens(path, lines))
    if columns := _find_columns(first):
        return list(_read_csv(path, lines, *columns))
    raise ValueError(
        f"{path} is of an unknown form; known: {KNOWN_CAPTIONS}; its first line is {first[:80]!r}"
    )


def _read_tokens(path: Path, lines: list[str]) -> Iterator[Entry]:
    for number, line in enumerate(lines, 1):
        match = _TOKEN.fullmatch(line)
        if match:
            yield f"{match[1]}#{match[2]}", match[1], match[3]
        elif line.strip():
            raise ValueError(
                f"{path}, line {number}: must be NAME#NUMBER<TAB>CAPTION; got {line[:80]!r}"
            )


def _find_columns(header: str) -> tuple[int, int] | None:
    """The places of the picture's name and of the caption, if both are there."""
    columns = [column.strip().lower() for column in next(csv.reader([header[:1000]]), [])]
    images = [column for column in IMAGE_COLUMNS if column in columns]
    if not images or "caption" not in columns:
        return None
    return columns.index(images[0]), columns.index("caption")


def _read_csv(path: Path, lines: list[str], image: int, caption: int) -> Iterator[Entry]:
    reader = csv.reader((f"{line}\n" for line in lines), strict=True)
    rows = filter(None, reader)  # without blank lines
    try:
        width = len(next(rows))
        for row in rows:
            if len(row) != width:
                raise ValueError(f"must have {width} columns, as line 1 has; got {len(row)}")
            name = row[image].strip()
            yield f"{name} (line {reader.line_num})", name, row[caption]
    except (csv.Error, ValueError) as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}") from error


def _read_json(path: Path, text: str) -> Iterator[Entry]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}, line {error.lineno}: is not JSON ({error.msg})") from error
    if {"images", "annotations"} <= content.keys():
        yield from _read_coco(path, content["images"], content["annotations"])
        return
    for name, texts in content.items():
        if not isinstance(texts, list) or not all(map(_is_text, [name, *texts])):
            raise ValueError(
                f"{path}: a name must have a list of texts; got {name!a}: {ascii(texts)[:80]}; "
                f"known forms: {KNOWN_CAPTIONS}"
            )
        yield from ((f"{name}#{place}", name, text) for place, text in enumerate(texts))


def _read_coco(path: Path, images, annotations) -> Iterator[Entry]:
    names = dict(_read_parts(path, "images", images, "id", "file_name"))
    captions = _read_parts(path, "annotations", annotations, "image_id", "caption")
    for place, (number, text) in enumerate(captions):
        name = names.get(number, f"image_id {number}")  # which no picture is called
        yield f"{name} (annotations[{place}])", name, text


def _read_parts(path: Path, key: str, parts, number: str, text: str) -> Iterator[tuple]:
    """Of each part a number and a text."""
    if not isinstance(parts, list):
        raise ValueError(f"{path}: {key} must be a list; got {ascii(parts)[:80]}")
    for place, part in enumerate(parts):
        own = (part.get(number), part.get(text)) if isinstance(part, dict) else (None, None)
        if not isinstance(own[0], int | str) or not _is_text(own[1]):
            raise ValueError(
                f"{path}: {key}[{place}] must have {number}, a number, and {text}, a text; "
                f"got {ascii(part)[:80]}"
            )
        yield own


def _read_tfds(name: str, split: str, data_dir) -> Found:
    builder = find_builder(name, data_dir)
    kinds = builder.info.features.dtype  # nested as the features are
    if not isinstance(kinds, dict) or not {"image", "image/filename", "captions"} <= kinds.keys():
        raise ValueError(
            f"tfds:{name} is no set of captions: it must have the features image, image/filename "
            "and captions, as coco_captions"
        )
    check_prepared(builder, name, data_dir, lazy=True)
    stored = {FOLDERS[key]: key for key in builder.info.splits if key in FOLDERS}
    if split not in stored:
        raise ValueError(f"tfds:{name} has no split {split}; got {list(builder.info.splits)}")
    decoders = {"image": tfds.decode.SkipDecoding()}
    try:
        source = builder.as_data_source(stored[split], decoders=decoders)
    except NotImplementedError:  # files that can only be read from the first example on
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        dataset = builder.as_dataset(split=stored[split], decoders=decoders, read_config=in_order)
        source = list(tfds.as_numpy(dataset))
    rows, entries = {}, []
    for row, example in enumerate(source):
        file = example["image/filename"].decode()
        rows[file] = row
        own = enumerate(example["captions"]["text"])
        entries += [(f"{file}#{place}", file, text.decode()) for place, text in own]
    _, texts, skipped = _join(list(rows), entries, list(rows), split)
    if not isinstance(source, list):
        items = LazyPictures(source, [rows[file] for file in texts], "image")
        return list(texts), items, list(texts.values()), skipped
    kept, broken = read_pictures(list(texts), lambda file: source[rows[file]]["image"])
    return list(kept), list(kept.values()), [texts[file] for file in kept], skipped | broken
