"""Noise in sources: their ends cut off, words left out, words in another order.

`NOISE` has functions of the number of words n and a random generator; each returns the indices of
the words that remain, in their new order. They act on tokens as well.
"""

from collections.abc import Iterable, Sequence

import numpy as np

OMITTED = 0.15  # rate of words that are left out
REACH = 3  # places that a word moves at most


def trim(n: int, rng: np.random.Generator) -> np.ndarray:
    """The first words; at most half of them are cut off."""
    return np.arange(rng.integers((n + 1) // 2, n + 1))


def omit(n: int, rng: np.random.Generator) -> np.ndarray:
    """Each word is left out with a probability of 0.15; one remains at least."""
    kept = np.flatnonzero(rng.random(n) >= OMITTED)
    return kept if len(kept) or not n else rng.integers(0, n, 1)


def permute(n: int, rng: np.random.Generator) -> np.ndarray:
    """In another order, no word further than 3 places from its own (arXiv:1711.00043)."""
    return np.argsort(np.arange(n) + rng.uniform(0, REACH + 1, n), kind="stable")


NOISE = {"trimmed": trim, "omitted": omit, "permuted": permute}


def add_noise(
    values: np.ndarray, lengths: np.ndarray, rate: float, seeds: Iterable[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as their values, one after another, and lengths → the same with noise.

    A row has noise of a random kind with probability `rate`; what happens to it depends on its seed
    alone. No row becomes longer.
    """
    rows, kinds = np.split(values, np.cumsum(lengths)[:-1]), list(NOISE.values())
    for i, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        if rng.random() < rate:
            rows[i] = rows[i][kinds[rng.integers(0, len(kinds))](len(rows[i]), rng)]
    return np.concatenate(rows), np.array([len(row) for row in rows], lengths.dtype)


def with_noise(kind: str, texts: Sequence[str], seed: int = 0) -> list[str]:
    """Texts whose words, between spaces, have noise: "trimmed", "omitted" or "permuted"."""
    rng, lines = np.random.default_rng(seed), [text.split() for text in texts]
    return [" ".join(words[i] for i in NOISE[kind](len(words), rng)) for words in lines]
