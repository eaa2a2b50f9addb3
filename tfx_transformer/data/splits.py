"""Which split an example belongs to: fixed for each example, in every process."""

import hashlib
from collections.abc import Collection

SPLITS = ("train", "validation", "test")
# names of splits in folders and in TFDS
SPLIT_NAMES = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}


def assign_split(key: str, parts: int = 10) -> str:
    """The split of a key, by its SHA-256 hash: one of `parts` each for validation and test."""
    part = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % parts
    return {0: "test", 1: "validation"}.get(part, "train")


def is_in_split(
    stored: str, key: str, present: Collection[str], split: str, hold_out: bool
) -> bool:
    """Whether an example that its source has in the split `stored` belongs to `split`.

    A split that is not `present` in the source is held out from train by `assign_split(key)`;
    without `hold_out` it is all of train.
    """
    if not hold_out:
        return stored == (split if split in present else "train")
    assigned = assign_split(key)
    return split == (assigned if stored == "train" and assigned not in present else stored)


def split_rows(counts: dict[str, int], split: str, hold_out: bool) -> tuple[str, list[int]]:
    """The stored split that contains a split, and its rows there; `counts` are those stored."""
    stored = split if split in counts else "train"
    rows = range(counts[stored])
    return stored, [i for i in rows if is_in_split(stored, str(i), counts, split, hold_out)]
