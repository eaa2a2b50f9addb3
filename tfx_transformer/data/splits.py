"""Which split an example belongs to: fixed for each example, in every process."""

import hashlib
from collections.abc import Collection

SPLITS = ("train", "validation", "test")
# names of splits in folders and in TFDS
SPLIT_NAMES = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}


def assign_split(key: str, parts: int = 10) -> str:
    """The split of a key, by its SHA-256 hash: one of `parts` each for validation and test."""
    return {0: "test", 1: "validation"}.get(_hash(key) % parts, "train")


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big")


SMALL_CLASS = 100  # images


def hold_out_classes(classes: dict[str, str], present: Collection[str]) -> dict[str, str]:
    """The split of each training example, {key: class}: train, or one that is not `present`.

    Each class is split by itself, by a hash of the keys: a tenth of it for a missing split. Of a
    class with fewer than 100 examples it is exactly a tenth, but more if the split would have fewer
    than 20 examples of all classes, up to a fifth; and at least one if the class has three. In a
    larger class no example changes its split when others are added.
    """
    share = min(max(0.1, 20 / max(len(classes), 1)), 0.2)
    keys: dict[str, list[str]] = {}
    for key, name in classes.items():
        keys.setdefault(name, []).append(key)
    splits: dict[str, str] = {}
    for own in keys.values():
        assigned = {key: assign_split(key) for key in own}
        if len(own) < SMALL_CLASS:
            count = max(round(share * len(own)), 1) if len(own) > 2 else 0
            order = sorted(own, key=lambda key: (_hash(key) % 10, _hash(key)))
            held_out = [split for split in ("test", "validation") for _ in range(count)]
            held_out += ["train"] * (len(own) - len(held_out))
            assigned = dict(zip(order, held_out, strict=True))
        splits |= {key: "train" if x in present else x for key, x in assigned.items()}
    return splits


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
