"""Sentence pairs from files, TFDS, the embedded phrases or a Python list.

    load_pairs(["train.en", "train.de"])                 two line-aligned files, plain or .gz
    load_pairs("train.en,train.de")                      the same as one string
    load_pairs("pairs.tsv")                              source<TAB>target, plain or .gz
    load_pairs("tfds:ted_hrlr_translate/pt_to_en", "validation")
    load_pairs("tfds:ted_hrlr_translate/pt_to_en@en-pt")      the other direction
    load_pairs("embedded:cldr/en-ko", "test")            dates, amounts and lists, by Babel
    load_pairs("embedded:emoji/en-ko", "test")           names of emoji
    load_pairs([("one", "eins"), ("two", "zwei")])

Leading and trailing white space is stripped; nothing else is changed. Skipped pairs are counted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from tfx_transformer.checks import check_positive
from tfx_transformer.data import sources
from tfx_transformer.data.text.emoji_names import emoji_pairs
from tfx_transformer.data.tfds import find_builder, require_prepared

KNOWN = (
    '"SOURCE,TARGET" or [SOURCE, TARGET] (two files), "PAIRS.tsv" (also .gz), '
    '"tfds:NAME/CONFIG[@SOURCE-TARGET]", "embedded:cldr/SOURCE-TARGET", '
    '"embedded:emoji/SOURCE-TARGET", [(source, target), ...]'
)


@dataclass(frozen=True)
class Pairs:
    """Sentences, their translations, and {reason: number} of skipped pairs."""

    name: str
    source: list[str]
    target: list[str]
    skipped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.source)

    def __str__(self) -> str:
        return f"{self.name}: {len(self):,} pairs; skipped: {sources.describe_counts(self.skipped)}"


def load_pairs(
    spec: str | Path | Sequence[Any],
    split: str = "train",
    max_characters: int = 2000,
    data_dir: str | Path | None = None,
) -> Pairs:
    """Reads every pair of a source into memory.

    Args:
        spec: the source; see the top of this file.
        split: for TFDS and embedded sources. Files and lists have no splits: only "train" is
            allowed for them.
        max_characters: a pair with a longer side is skipped.
        data_dir: folder of the prepared TFDS data sets; the default of TFDS if None.
    """
    check_positive(max_characters=max_characters)
    scheme, _, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    name, skipped = f"{spec} ({split})", {}
    pairs: Iterable[tuple[str, str]]
    if scheme == "tfds":
        pairs = _read_tfds(rest, split, data_dir)
    elif scheme == "embedded":
        pairs, skipped = _read_embedded(rest, split)
    else:
        name, pairs = _read_data(spec)
        if split != "train":
            raise ValueError(f"{name} has no splits; give each split its own files; got {split=}")
    return _clean(name, pairs, skipped, max_characters)


def _clean(name, pairs: Iterable[tuple[str, str]], skipped, max_characters) -> Pairs:
    """Strips white space and skips empty and too long pairs."""
    kept, counts = [], Counter(skipped)
    for source, target in pairs:
        source, target = source.strip(), target.strip()
        if not source:
            counts["empty source"] += 1
        elif not target:
            counts["empty target"] += 1
        elif max(len(source), len(target)) > max_characters:
            counts[f"over {max_characters:,} characters"] += 1
        else:
            kept.append((source, target))
    if not kept:
        raise ValueError(f"{name} has no usable pair; skipped: {sources.describe_counts(counts)}")
    return Pairs(name, [pair[0] for pair in kept], [pair[1] for pair in kept], dict(counts))


def _read_data(spec) -> tuple[str, Iterable[tuple[str, str]]]:
    """The name and the pairs of files or of a list."""
    if not isinstance(spec, list | tuple):
        path = sources.check_path(spec, KNOWN)
        if isinstance(spec, Path) or spec.count(",") != 1:
            if not path.name.endswith((".tsv", ".tsv.gz")):
                if path.is_file():
                    rule = (
                        "one file must be .tsv or .tsv.gz, with both languages; or give two files"
                    )
                    raise ValueError(f"{rule}; got {path}")
                raise sources.unknown_source(spec, KNOWN)
            return str(spec), sources.read_tsv(path, "source<TAB>target")
        spec = spec.split(",")
    if len(spec) == 2 and all(isinstance(part, str | Path) for part in spec):
        source, target = (Path(str(part).strip()) for part in spec)
        return f"{source},{target}", _read_aligned(source, target)
    return "a list", _read_list(spec)


def _read_list(pairs) -> Iterator[tuple[str, str]]:
    for index, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(x, str) for x in pair):
            raise ValueError(f"a pair must be two strings; got pair {index}: {pair!r}")
        yield pair[0], pair[1]


def _read_aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    texts, translations = sources.read_lines(source), sources.read_lines(target)
    counts = len(texts), len(translations)
    if counts[0] != counts[1]:  # one file may end in a blank line
        for lines in (texts, translations):
            if lines and not lines[-1].strip():
                lines.pop()
    if len(texts) != len(translations):
        raise ValueError(
            f"two files must have the same number of lines; got {source}: {counts[0]:,}, "
            f"{target}: {counts[1]:,}"
        )
    return zip(texts, translations, strict=True)


def _read_embedded(rest: str, split: str):
    match = re.fullmatch(r"(cldr|emoji)/(\w+)-(\w+)", rest)
    if not match:
        raise ValueError(
            f"unknown source 'embedded:{rest}'; known: embedded:cldr/SOURCE-TARGET and "
            "embedded:emoji/SOURCE-TARGET, for example embedded:cldr/en-ko"
        )
    kind, source, target = match.groups()
    if kind == "cldr":
        from tfx_transformer.data.text.cldr import cldr_pairs

        return cldr_pairs(source, target, split), {}
    return emoji_pairs(source, target, split)


def _read_tfds(rest: str, split: str, data_dir) -> Iterator[tuple[str, str]]:
    name, _, languages = rest.partition("@")
    builder = find_builder(name, data_dir)
    source, target = _direction(name, builder.info, languages)
    require_prepared(builder, name, data_dir)
    dataset = builder.as_dataset(split=split, shuffle_files=False).batch(1024)
    return (
        (one.decode(), other.decode())
        for batch in tfds.as_numpy(dataset)
        for one, other in zip(batch[source], batch[target], strict=True)
    )


def _direction(name: str, info: tfds.core.DatasetInfo, wanted: str) -> tuple[str, str]:
    """The source and target features: of `wanted` ("en-pt"), or by default of the data set."""
    features = info.features if isinstance(info.features, tfds.features.FeaturesDict) else {}
    texts = [key for key, kind in features.items() if isinstance(kind, tfds.features.Text)]
    known = {f"{one}-{other}": (one, other) for one in texts for other in texts if one != other}
    if not known:
        raise ValueError(f"tfds:{name} is not for translation: it must have two text features")
    wanted = wanted or "-".join(info.supervised_keys or texts)
    if wanted not in known:
        raise ValueError(
            f"tfds:{name} has no direction {wanted!r}; known: "
            + ", ".join(f"tfds:{name}@{direction}" for direction in known)
        )
    return known[wanted]
