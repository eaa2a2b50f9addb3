"""Which lengths batches of pairs are padded to: few of them, chosen by the data.

A pair of s source and t target tokens is padded to the smallest of K shapes (S, T) with s ≤ S and
t ≤ T. The shapes are chosen one after the other, each where it saves the most positions S + T of
all pairs; then each is chosen again, with the others fixed, until none improves.
"""

import numpy as np

SHAPES = 16  # K; XLA compiles a program for each
GROWTH = 1.08  # of one candidate to the next, above 12


def choose_shapes(lengths: np.ndarray, count: int = SHAPES) -> list[tuple[int, int]]:
    """At most `count` shapes (S, T) for pairs of lengths (2, N), from small to large S + T.

    The last one has both the longest source and the longest target: every pair fits it.
    """
    sources, targets = (candidates(int(side.max())) for side in lengths)
    rows = np.searchsorted(sources, lengths[0]) * len(targets)
    rows += np.searchsorted(targets, lengths[1])
    counts = np.bincount(rows, minlength=len(sources) * len(targets))
    counts = counts.reshape(len(sources), len(targets))  # pairs by their lengths
    sizes = sources[:, None] + targets  # S + T of each candidate

    def positions(shapes):
        """S + T that a pair of each length is padded to."""
        found = np.full(sizes.shape, sizes[-1, -1])
        for a, b in shapes:
            found[: a + 1, : b + 1] = np.minimum(found[: a + 1, : b + 1], sizes[a, b])
        return found

    def best(padded):
        """The shape that saves the most positions, and how many."""
        saved = np.array(
            [
                [
                    (
                        np.maximum(padded[: a + 1, : b + 1] - sizes[a, b], 0)
                        * counts[: a + 1, : b + 1]
                    ).sum()
                    for b in range(len(targets))
                ]
                for a in range(len(sources))
            ]
        )
        a, b = np.unravel_index(saved.argmax(), saved.shape)
        return (int(a), int(b)), int(saved[a, b])

    shapes: list[tuple[int, int]] = []
    while len(shapes) < count - 1:
        shape, saved = best(positions(shapes))
        if not saved:
            break
        shapes.append(shape)
    total, before = (positions(shapes) * counts).sum(), np.inf
    while total < before:
        for i in range(len(shapes)):
            shapes[i], _ = best(positions(shapes[:i] + shapes[i + 1 :]))
        total, before = (positions(shapes) * counts).sum(), total
    shapes.append((len(sources) - 1, len(targets) - 1))
    found = {(int(sources[a]), int(targets[b])) for a, b in shapes}
    return sorted(found, key=lambda shape: (sum(shape), shape))


def candidates(longest: int) -> np.ndarray:
    """Lengths 1, 2, 3 … and above 12 every 8 %, up to the longest."""
    values, value = [], 1
    while value < longest:
        values.append(value)
        value = max(value + 1, int(value * GROWTH))
    return np.array([*values, longest])
