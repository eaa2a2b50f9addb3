"""Texts and their classes from files, TFDS or the embedded emoji names.

    load_labeled("mail.tsv")                       text<TAB>label in each line
    load_labeled("mail.csv", "test")               with the columns text and label
    load_labeled("tfds:glue/sst2", "validation")
    load_labeled("embedded:languages/de-en-fr")    emoji names, by their language

Files may end in .gz. A missing split is held out from the training set: a tenth of it, by a hash of
the text, so that a text is in one split only and does not change it when others are added. Leading
and trailing white space is stripped. Skipped texts are counted.
"""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow_datasets as tfds

from tfx_transformer.checks import check_choice
from tfx_transformer.data import sources
from tfx_transformer.data.splits import SPLITS, assign_split
from tfx_transformer.data.text.emoji_names import emoji_languages
from tfx_transformer.data.tfds import class_features, find_builder, require_prepared, stored_splits

KNOWN = '"FILE.tsv", "FILE.csv" (also .gz), "tfds:NAME[/CONFIG]", "embedded:languages[/DE-EN-…]"'
LATIN = ("de", "en", "es", "fr", "id", "it", "pt", "tr")  # languages of one alphabet


@dataclass(frozen=True)
class Labeled:
    """Texts, the name of each text's class, and {reason: number} of skipped texts."""

    name: str
    texts: list[str]
    labels: list[str]
    skipped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def __str__(self) -> str:
        return (
            f"{self.name}: {len(self):,} texts of {len(set(self.labels)):,} classes; "
            f"skipped: {sources.describe_counts(self.skipped)}"
        )


def load_labeled(
    spec: str | Path,
    split: str = "train",
    hold_out: Collection[str] = ("validation", "test"),
    data_dir: str | Path | None = None,
) -> Labeled:
    """Reads one split of a source into memory.

    Args:
        spec: the source; see the top of this file.
        split: "train", "validation" or "test".
        hold_out: the splits to hold out from "train" if the source does not have them. If `split`
            is not among them, a file as a whole is that split.
        data_dir: folder of the prepared TFDS data sets; the default of TFDS if None.
    """
    check_choice(*SPLITS, split=split)
    scheme, _, rest = str(spec).partition(":")
    skipped: dict[str, int] = {}
    if scheme == "tfds":
        stored, pairs = _read_tfds(rest, split, data_dir)
    elif scheme == "embedded":
        pairs, skipped = _read_embedded(rest, split)
        stored = SPLITS
    else:
        stored, pairs = ("train" if split in hold_out else split,), _read_file(spec)
    hold_out = set(hold_out) - set(stored)
    if split not in (*stored, *hold_out):
        raise ValueError(f"{spec} has no split {split}; it has {', '.join(stored)}")
    return _clean(f"{spec} ({split})", pairs, split, hold_out, skipped)


def _clean(name, pairs: Iterable[tuple[str, str]], split, hold_out, skipped) -> Labeled:
    """Strips white space, skips empty texts and labels, and takes the texts of the split."""
    texts, labels, counts = [], [], Counter(skipped)
    for text, label in pairs:
        text, label = text.strip(), label.strip()
        assigned = assign_split(text)
        held_out = assigned if assigned in hold_out else "train"
        if not text or not label:
            counts["empty"] += 1
        elif split not in (*hold_out, "train") or split == held_out:
            texts.append(text)
            labels.append(label)
    if not texts:
        raise ValueError(
            f"{name} has no text with a label; skipped: {sources.describe_counts(counts)}"
        )
    if split == "train" and len(set(labels)) < 2:
        raise ValueError(f"{name} must have at least two classes; got {labels[0]!r}")
    return Labeled(name, texts, labels, dict(counts))


def _read_file(spec) -> Iterator[tuple[str, str]]:
    path = sources.check_path(spec, KNOWN)
    if path.name.endswith((".tsv", ".tsv.gz")):
        return sources.read_tsv(path, "text<TAB>label")
    if path.name.endswith((".csv", ".csv.gz")):
        return _read_csv(path)
    raise sources.unknown_source(spec, KNOWN)


def _read_csv(path: Path) -> Iterator[tuple[str, str]]:
    rows = csv.DictReader(line + "\n" for line in sources.read_lines(path))
    columns = rows.fieldnames or ()
    if not {"text", "label"} <= set(columns):
        raise ValueError(f"{path}: the columns must include text and label; got {columns}")
    for row in rows:
        yield row["text"] or "", row["label"] or ""


def _read_embedded(rest: str, split: str):
    name, _, languages = rest.partition("/")
    if name != "languages":
        raise sources.unknown_source(f"embedded:{rest}", KNOWN)
    return emoji_languages(languages.split("-") if languages else LATIN, split)


def _read_tfds(name: str, split: str, data_dir):
    """The available splits, and the pairs of one of them; of "train" if it is missing."""
    builder = find_builder(name, data_dir)
    text, label = class_features(name, builder.info, tfds.features.Text)
    require_prepared(builder, name, data_dir)
    splits = stored_splits(builder)
    classes = builder.info.features[label]
    stored = splits.get(split, "train")
    dataset = builder.as_dataset(split=stored, shuffle_files=False).batch(1024)

    def read():
        for batch in tfds.as_numpy(dataset):
            for string, number in zip(batch[text], batch[label], strict=True):
                if number < 0:
                    raise ValueError(f"tfds:{name} has no labels in its split {stored}")
                yield string.decode(), classes.int2str(int(number))

    return tuple(splits), read()
