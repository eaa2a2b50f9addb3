"""Texts and their classes from files, TFDS or the embedded names of emoji, by one spec.

    load_labelled("mail.tsv")                       text<TAB>label in each line
    load_labelled("mail.csv", "test")               the first line names the columns text and label
    load_labelled("tfds:glue/sst2", "validation")
    load_labelled("embedded:languages/de-en-fr")    names of emoji, by their language

Files may end in .gz. A split that a source has not is cut from its training set: a tenth, by a hash
of the text, so that the same text is never in two of them, nor ever moves when others come. Outer
white space is stripped. What is left out is counted.
"""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow_datasets as tfds

from tfx_transformer.checks import check_choice
from tfx_transformer.data.emoji_names import emoji_languages
from tfx_transformer.data.prepared import check_prepared, find_builder
from tfx_transformer.data.sources import _read_lines
from tfx_transformer.data.splits import SPLITS, split_of

KNOWN = '"FILE.tsv", "FILE.csv" (also .gz), "tfds:NAME[/CONFIG]", "embedded:languages[/DE-EN-…]"'
LATIN = ("de", "en", "es", "fr", "id", "it", "pt", "tr")  # languages that letters do not give away
UNLABELLED = ("glue",)  # TFDS sets whose test split hides the classes


@dataclass(frozen=True)
class Labelled:
    """Texts, the name of each one's class, and what was left out for which reason."""

    name: str
    texts: list[str]
    labels: list[str]
    skipped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.texts)

    def __str__(self) -> str:
        skipped = ", ".join(f"{count:,} {reason}" for reason, count in self.skipped.items())
        classes = len(set(self.labels))
        return f"{self.name}: {len(self):,} texts of {classes:,} classes; skipped: " + (
            skipped or "none"
        )


def load_labelled(
    spec: str | Path,
    split: str = "train",
    cut: Collection[str] = ("validation", "test"),
    data_dir: str | Path | None = None,
) -> Labelled:
    """Reads one split of a source into memory.

    Args:
        spec: what to read; see the top of this file.
        split: "train", "validation" or "test".
        cut: the splits that are cut from "train", where the source itself has none of that name.
            A file from which its own split is not cut is that split as a whole.
        data_dir: where TFDS keeps its prepared sets; its own default if None.
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
        stored, pairs = ("train" if split in cut else split,), _read_file(spec)
    cut = set(cut) - set(stored)
    if split not in (*stored, *cut):
        raise ValueError(f"{spec} has no split {split}; it has {', '.join(stored)}")
    return _clean(f"{spec} ({split})", pairs, split, cut, skipped)


def _clean(name, pairs: Iterable[tuple[str, str]], split, cut, skipped) -> Labelled:
    """Strips white space, leaves out what is empty, and takes the texts of the split."""
    texts, labels, counts = [], [], Counter(skipped)
    for text, label in pairs:
        text, label = text.strip(), label.strip()
        own = split_of(text)
        if not text or not label:
            counts["empty"] += 1
        elif split == own if split in cut else split != "train" or own not in cut:
            texts.append(text)
            labels.append(label)
    if not texts:
        raise ValueError(f"{name} holds no text with a label; skipped: {dict(counts) or 'none'}")
    if split == "train" and len(set(labels)) < 2:
        raise ValueError(f"{name} must have two classes or more; got {labels[0]!r} alone")
    return Labelled(name, texts, labels, dict(counts))


def _read_file(spec) -> Iterator[tuple[str, str]]:
    if isinstance(spec, str) and re.match(r"[A-Za-z]\w+:", spec):  # "C:" is a drive
        raise ValueError(f"unknown source {spec!r}; known: {KNOWN}")
    path = Path(spec)
    for kind, read in ((".tsv", _read_tsv), (".csv", _read_csv)):
        if path.name.endswith((kind, f"{kind}.gz")):
            return read(path)
    raise ValueError(f"unknown source {str(spec)!r}; known: {KNOWN}")


def _read_tsv(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(_read_lines(path), 1):
        parts = line.split("\t")
        if len(parts) == 2:
            yield parts[0], parts[1]
        elif line.strip():
            raise ValueError(
                f"{path}, line {number}: must be text<TAB>label; got {len(parts) - 1} tabs"
            )


def _read_csv(path: Path) -> Iterator[tuple[str, str]]:
    rows = csv.DictReader(line + "\n" for line in _read_lines(path))
    columns = rows.fieldnames or ()
    if not {"text", "label"} <= set(columns):
        raise ValueError(f"{path}: line 1 must name the columns text and label; got {columns}")
    for row in rows:
        yield row["text"] or "", row["label"] or ""


def _read_embedded(rest: str, split: str):
    name, _, languages = rest.partition("/")
    if name != "languages":
        raise ValueError(f"unknown source 'embedded:{rest}'; known: {KNOWN}")
    return emoji_languages(languages.split("-") if languages else LATIN, split)


def _read_tfds(name: str, split: str, data_dir):
    """The names of the splits, and the pairs of one of them, or of "train"."""
    builder = find_builder(name, data_dir)
    text, label = _features(name, builder.info)
    check_prepared(builder, name, data_dir)
    stored = {own: own for own in SPLITS if own in builder.info.splits}
    if builder.info.name in UNLABELLED:  # the test set of papers is its validation split
        stored = {"train": "train", "test": "validation"}
    classes = builder.info.features[label]
    own = stored.get(split, "train")
    dataset = builder.as_dataset(split=own, shuffle_files=False).batch(1024)

    def read():
        for batch in tfds.as_numpy(dataset):
            for one, number in zip(batch[text], batch[label], strict=True):
                if number < 0:
                    raise ValueError(f"tfds:{name} does not tell the classes of its split {own}")
                yield one.decode(), classes.int2str(int(number))

    return tuple(stored), read()


def _features(name: str, info: tfds.core.DatasetInfo) -> tuple[str, str]:
    """Which features are the text and its class."""
    features = info.features if isinstance(info.features, tfds.features.FeaturesDict) else {}
    texts = [key for key, kind in features.items() if isinstance(kind, tfds.features.Text)]
    labels = [key for key, kind in features.items() if isinstance(kind, tfds.features.ClassLabel)]
    keys = info.supervised_keys or (*texts, *labels)
    if len(keys) != 2 or keys[0] not in texts or keys[1] not in labels:
        raise ValueError(f"tfds:{name} must have one text and one class; it is for another task")
    return keys
