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

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds
from tqdm import tqdm

from tfx_transformer.checks import check_positive
from tfx_transformer.data import sources
from tfx_transformer.data.stored import (
    Texts,
    filled,
    hash_files,
    read_rows,
    text_block,
    write_rows,
)
from tfx_transformer.data.text.emoji_names import emoji_pairs
from tfx_transformer.data.tfds import find_builder, require_prepared
from tfx_transformer.files import write_file

KNOWN = (
    '"SOURCE,TARGET" or [SOURCE, TARGET] (two files), "PAIRS.tsv" (also .gz), '
    '"tfds:NAME/CONFIG[@SOURCE-TARGET]", "embedded:cldr/SOURCE-TARGET", '
    '"embedded:emoji/SOURCE-TARGET", [(source, target), ...]'
)


SIDES = ("source", "target")
BLOCK = 8192  # pairs in memory while they are stored
READING: dict[str, Any] = {"desc": "reading pairs", "unit": " pairs", "delay": 3, "disable": None}


@dataclass(frozen=True)
class Pairs:
    """Sentences, their translations, and {reason: number} of skipped pairs."""

    name: str
    source: Sequence[str]
    target: Sequence[str]
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
    cache: Path | None = None,
) -> Pairs:
    """Reads every pair of a source, into memory or into files of a cache.

    Args:
        spec: the source; see the top of this file.
        split: for TFDS and embedded sources. Files and lists have no splits: only "train" is
            allowed for them.
        max_characters: a pair with a longer side is skipped.
        data_dir: folder of the prepared TFDS data sets; the default of TFDS if None.
        cache: a folder. Pairs of files and of TFDS are stored there, by a hash of their content,
            and mapped into memory; later calls only compute the hash.
    """
    check_positive(max_characters=max_characters)
    scheme, _, rest = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    name, skipped, key = f"{spec} ({split})", {}, ""
    pairs: Iterable[tuple[str, str]]
    if scheme == "tfds":
        pairs, key = _read_tfds(rest, split, data_dir)
    elif scheme == "embedded":
        pairs, skipped = _read_embedded(rest, split)
    else:
        name, files, pairs = _read_data(spec)
        if split != "train":
            raise ValueError(f"{name} has no splits; give each split its own files; got {split=}")
        key = hash_files(files, max_characters) if cache and files else ""
    counts = Counter(skipped)
    cleaned = _clean(pairs, counts, max_characters)
    if cache and key:
        return _stored(name, cleaned, counts, cache / f"pairs-{key}")
    kept = list(cleaned)
    _check_any(name, len(kept), counts)
    return Pairs(name, [pair[0] for pair in kept], [pair[1] for pair in kept], dict(counts))


def _clean(pairs: Iterable[tuple[str, str]], counts: Counter, max_characters: int):
    """Strips white space; skips empty and too long pairs, and counts them."""
    too_long = f"over {max_characters:,} characters"
    for source, target in pairs:
        source, target = source.strip(), target.strip()
        if not source:
            counts["empty source"] += 1
        elif not target:
            counts["empty target"] += 1
        elif max(len(source), len(target)) > max_characters:
            counts[too_long] += 1
        else:
            yield source, target


def _check_any(name: str, count: int, skipped: Counter) -> None:
    if not count:
        raise ValueError(f"{name} has no usable pair; skipped: {sources.describe_counts(skipped)}")


def _stored(name: str, pairs: Iterator[tuple[str, str]], counts: Counter, folder: Path) -> Pairs:
    """The pairs in the files of a folder, which are written if they are not there."""
    finished = folder / "skipped.json"
    with filled(folder, finished) as is_new:
        if is_new:
            _check_any(name, _write_pairs(pairs, folder), counts)
            write_file(finished, json.dumps(counts))
    source, target = (Texts(read_rows(folder / x, "uint8"), folder / x) for x in SIDES)
    return Pairs(name, source, target, json.loads(finished.read_text()))


def _write_pairs(pairs: Iterator[tuple[str, str]], folder: Path) -> int:
    """Writes the texts of both sides → how many there are."""
    count, add_source, add_target = 0, *(write_rows(folder / x, "uint8") for x in SIDES)
    with add_source as one, add_target as other, tqdm(**READING) as bar:
        while block := list(islice(pairs, BLOCK)):
            for add, texts in zip((one, other), zip(*block, strict=True), strict=True):
                add(*text_block(texts))
            count += len(block)
            bar.update(len(block))
    return count


def _read_data(spec) -> tuple[str, list[Path], Iterable[tuple[str, str]]]:
    """The name, the files and the pairs of files or of a list."""
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
            return str(spec), [path], sources.read_tsv(path, "source<TAB>target")
        spec = spec.split(",")
    if len(spec) == 2 and all(isinstance(part, str | Path) for part in spec):
        source, target = (Path(str(part).strip()) for part in spec)
        return f"{source},{target}", [source, target], _read_aligned(source, target)
    return "a list", [], _read_list(spec)


def _read_list(pairs) -> Iterator[tuple[str, str]]:
    for index, pair in enumerate(pairs):
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(x, str) for x in pair):
            raise ValueError(f"a pair must be two strings; got pair {index}: {pair!r}")
        yield pair[0], pair[1]


def _read_aligned(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    sides = sources.stream_lines(source), sources.stream_lines(target)
    for count, pair in enumerate(zip_longest(*sides)):
        if None not in pair:
            yield pair
            continue
        more = [
            (line is not None) + sum(1 for _ in rest)
            for line, rest in zip(pair, sides, strict=True)
        ]
        if sum(more) == 1 and not (pair[0] or pair[1] or "").strip():
            return  # one file ends in a blank line
        raise ValueError(
            f"two files must have the same number of lines; got {source}: {count + more[0]:,}, "
            f"{target}: {count + more[1]:,}"
        )


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


def _read_tfds(rest: str, split: str, data_dir) -> tuple[Iterator[tuple[str, str]], str]:
    """The pairs, and a short hash of what they are."""
    name, _, languages = rest.partition("@")
    builder = find_builder(name, data_dir)
    source, target = _direction(name, builder.info, languages)
    require_prepared(builder, name, data_dir)

    def pairs():
        dataset = builder.as_dataset(split=split, shuffle_files=False).batch(1024)
        for batch in tfds.as_numpy(dataset):
            for one, other in zip(batch[source], batch[target], strict=True):
                yield one.decode(), other.decode()

    stored = builder.info.splits[split]
    size = stored.num_examples, stored.num_bytes
    return pairs(), hash_files([], builder.info.full_name, split, source, target, size)


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
