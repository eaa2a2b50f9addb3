"""Which rows go into which batch: few shapes, about as many tokens in each, reproducible.

The order is a pure function of (seed, epoch): a run continues at any (epoch, step) without
reading what came before. Only numbers here; `text.py` fills them with words.
"""

from dataclasses import dataclass

import numpy as np

from tfx_transformer.checks import check_positive

EMPTY = -1  # marks a row that holds nothing, in a batch that could not be filled


@dataclass(frozen=True)
class Batch:
    """Rows of a data set that are padded to one length."""

    length: int
    rows: np.ndarray  # (B) indices, or EMPTY


def bucket_sizes(max_length: int, token_budget: int, multiple: int = 1) -> dict[int, int]:
    """{length: rows in a batch of that length}, lengths 8, 12, 16, 24, 32, … up to `max_length`.

    Neighbours differ by a third or a half, so a row is padded by a third at most, shortest aside.

    Args:
        max_length: the last length.
        token_budget: rows · length of a batch is at most this.
        multiple: rows are a multiple of it: the number of replicas that share a batch.
    """
    check_positive(max_length=max_length, token_budget=token_budget, multiple=multiple)
    lengths = [max_length]
    for power in range(3, max_length.bit_length()):
        lengths += [2**power, 3 * 2 ** (power - 1)]
    sizes = {
        length: token_budget // length // multiple * multiple
        for length in sorted(set(lengths))
        if length <= max_length
    }
    if not sizes[max_length]:
        raise ValueError(
            "token_budget must hold `multiple` rows of max_length; got "
            f"{token_budget=}, {multiple=}, {max_length=}"
        )
    return sizes


def epoch_batches(
    lengths: np.ndarray, sizes: dict[int, int], seed: int | None, epoch: int = 0
) -> list[Batch]:
    """Every row once, in batches of rows of like length; shuffled unless `seed` is None.

    What does not fill a batch moves up to the next longer bucket, so that only one batch of an
    epoch holds EMPTY rows. Their number depends on the lengths alone: every epoch has as many.

    Args:
        lengths: (N) whole numbers, none above the longest bucket.
        sizes: from `bucket_sizes`.
        seed: of the run.
        epoch: other epochs of the same run have other orders.
    """
    rng = None if seed is None else np.random.default_rng([seed, epoch])
    order = np.arange(len(lengths)) if rng is None else rng.permutation(len(lengths))
    bucket = np.searchsorted(list(sizes), lengths[order])

    batches, left = [], order[:0]
    for index, (length, size) in enumerate(list(sizes.items())[: bucket.max() + 1]):
        rows = np.concatenate([left, order[bucket == index]])
        filled = len(rows) // size * size
        batches += [Batch(length, part) for part in rows[:filled].reshape(-1, size)]
        left = rows[filled:]
    if len(left):
        empty = np.full(size - len(left), EMPTY)
        batches.append(Batch(length, np.concatenate([left, empty])))
    if rng is not None:
        rng.shuffle(batches)
    return batches
