"""Formats of caption files, plain or .gz, detected by their content.

1.jpg#0<TAB>A dog runs .                                    as Flickr8k
image,caption                                               a CSV; also file or file_name
{"images": [{"id": 7, "file_name": "1.jpg"}],               as COCO
 "annotations": [{"image_id": 7, "caption": "A dog"}]}
{"1.jpg": ["A dog runs .", "A brown dog"]}
"""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

from tfx_transformer.data.sources import is_text, read_lines
from tfx_transformer.files import reading

KNOWN = (
    "NAME#NUMBER<TAB>CAPTION, a CSV with the columns image (or file, file_name) and caption, JSON "
    'as {"images": [{"id", "file_name"}], "annotations": [{"image_id", "caption"}]}, or JSON as '
    '{"NAME": ["CAPTION", ...]}'
)
IMAGE_COLUMNS = ("image", "file", "file_name")
Entry = tuple[str, str, str]  # a caption: how to report it, the name of its image, its text

_TOKEN = re.compile(r"([^\t]+)#(\d+)\t(.*)")


def read_entries(path: Path) -> list[Entry]:
    """All captions of a file in any of the known formats."""
    lines = read_lines(path)
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("{"):
        return list(_read_json(path, "\n".join(lines)))
    if _TOKEN.fullmatch(first):
        return list(_read_tokens(path, lines))
    if columns := _find_columns(first):
        return list(_read_csv(path, lines, *columns))
    raise ValueError(
        f"{path} has an unknown format; known: {KNOWN}; its first line is {first[:80]!r}"
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
    """The column numbers of image name and caption, if both exist."""
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
    with reading(path):  # also of deep nesting and long numbers
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}, line {error.lineno}: is not JSON ({error.msg})") from error
    if {"images", "annotations"} <= content.keys():
        yield from _read_coco(path, content["images"], content["annotations"])
        return
    for name, texts in content.items():
        if not isinstance(texts, list) or not all(map(is_text, [name, *texts])):
            raise ValueError(
                f"{path}: a name must have a list of texts; got {name!a}: {ascii(texts)[:80]}; "
                f"known formats: {KNOWN}"
            )
        yield from ((f"{name}#{index}", name, text) for index, text in enumerate(texts))


def _read_coco(path: Path, images, annotations) -> Iterator[Entry]:
    names = dict(_read_parts(path, "images", images, "id", "file_name"))
    captions = _read_parts(path, "annotations", annotations, "image_id", "caption")
    for index, (number, text) in enumerate(captions):
        name = names.get(number, f"image_id {number}")  # not the name of any image
        yield f"{name} (annotations[{index}])", name, text


def _read_parts(path: Path, key: str, parts, number: str, text: str) -> Iterator[tuple]:
    """The number and the text of each part."""
    if not isinstance(parts, list):
        raise ValueError(f"{path}: {key} must be a list; got {ascii(parts)[:80]}")
    for index, part in enumerate(parts):
        pair = (part.get(number), part.get(text)) if isinstance(part, dict) else (None, None)
        if not isinstance(pair[0], int | str) or not is_text(pair[1]):
            raise ValueError(
                f"{path}: {key}[{index}] must have {number}, a number, and {text}, a text; "
                f"got {ascii(part)[:80]}"
            )
        yield pair
