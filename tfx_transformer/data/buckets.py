"""Bucketing: which rows form a batch, with few shapes and a similar number of tokens in each.

The order is a pure function of (seed, epoch), so that a run can resume at any (epoch, step).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfx_transformer.checks import check_positive
from tfx_transformer.data.lengths import choose_shapes
from tfx_transformer.data.share import Share

EMPTY = -1  # index of an unused row, in a batch that could not be filled


@dataclass(frozen=True)
class Batch:
    """Rows of a data set that are padded to one length; pairs to one for each side."""

    length: Any  # T, or (S, T)
    rows: np.ndarray  # (B) indices, or EMPTY
    first: int = EMPTY  # the first row of the whole batch, if this is a share of it

    @property
    def is_real(self) -> np.ndarray:
        """(B) False for EMPTY rows."""
        return self.rows != EMPTY

    @property
    def filled_rows(self) -> np.ndarray:
        """(B) with the first row, of weight 0, in place of EMPTY ones.

        Attention over padding alone would give NaN, and 0 · NaN is NaN.
        """
        first = self.rows[0] if self.first == EMPTY else self.first
        return np.where(self.is_real, self.rows, first)

    def share(self, share: Share) -> "Batch":
        """The rows of one worker."""
        return Batch(self.length, share.of(self.rows, EMPTY), int(self.rows[0]))


def bucket_sizes(max_length: int, token_budget: int) -> dict[int, int]:
    """{length: rows of a batch of that length}, with lengths 8, 12, 16, 24, 32, … `max_length`.

    Neighboring lengths differ by a third or a half: except for the shortest rows, at most a third
    of a row is padding. A batch has at most `token_budget` positions.
    """
    check_budget(max_length, token_budget)
    lengths = [max_length]
    for power in range(3, max_length.bit_length()):
        lengths += [2**power, 3 * 2 ** (power - 1)]
    return {
        length: token_budget // length for length in sorted(set(lengths)) if length <= max_length
    }


def check_budget(max_length: int, token_budget: int) -> None:
    """Raises unless a batch has room for the longest row."""
    check_positive(max_length=max_length, token_budget=token_budget)
    if token_budget < max_length:
        raise ValueError(
            f"token_budget must not be below max_length; got {token_budget=}, {max_length=}"
        )


def pair_sizes(lengths: np.ndarray, max_length: int, token_budget: int) -> dict[Any, int]:
    """{(S, T): rows of a batch of that shape} for pairs of lengths (2, N).

    A batch has at most `token_budget` positions on each side.
    """
    check_budget(max_length, token_budget)
    return {shape: token_budget // max(shape) for shape in choose_shapes(lengths)}


def epoch_batches(
    lengths: np.ndarray, sizes: dict[Any, int], seed: int | None, epoch: int = 0
) -> list[Batch]:
    """Every row once, in batches of rows of similar length; shuffled unless `seed` is None.

    Rows that do not fill a batch move to the next longer bucket, so that only one batch of an
    epoch has EMPTY rows. Every epoch has its own order and the same number of batches. No row of
    `lengths` (N), or (2, N) of pairs, may exceed the longest of `sizes`, which come from
    `bucket_sizes` or `pair_sizes`.
    """
    lengths = np.atleast_2d(lengths)  # (sides, N)
    rng = None if seed is None else np.random.default_rng([seed, epoch])
    count = lengths.shape[1]
    order = np.arange(count) if rng is None else rng.permutation(count)
    shapes = list(sizes)
    edges = np.array(shapes).reshape(len(shapes), -1)  # (K, sides)
    bucket = np.zeros(count, "int8")  # the first that a row fits
    for index in range(len(shapes) - 1, -1, -1):
        bucket[(lengths <= edges[index][:, None]).all(axis=0)] = index
    longest = edges[np.unique(bucket)].max(axis=0)
    top = next(i for i, edge in enumerate(edges) if (edge >= longest).all())
    bucket = bucket[order]

    batches: list[Batch] = []
    waiting: list[list[np.ndarray]] = [[] for _ in range(top + 1)]
    for index, length in enumerate(shapes[: top + 1]):
        size = sizes[length]
        rows = np.concatenate([*waiting[index], order[bucket == index]])
        filled = len(rows) // size * size
        batches += [Batch(length, part) for part in rows[:filled].reshape(-1, size)]
        rest = rows[filled:]
        if index < top:
            fits = (edges[index + 1 : top + 1] >= edges[index]).all(axis=1)
            waiting[index + 1 + int(fits.argmax())].append(rest)
        elif len(rest):
            empty = np.full(size - len(rest), EMPTY)
            batches.append(Batch(length, np.concatenate([rest, empty])))
    if rng is not None:
        rng.shuffle(batches)
    return batches
