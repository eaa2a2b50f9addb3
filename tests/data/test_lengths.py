"""The shapes of batches against all possible choices, on small data."""

import itertools

import numpy as np
import pytest

from tfx_transformer.data.lengths import candidates, choose_shapes


def padded(pairs, shapes):
    """The positions of all pairs, each in the smallest shape that it fits."""
    return sum(min(S + T for S, T in shapes if s <= S and t <= T) for s, t in pairs)


def test_two_kinds_of_pairs_get_their_own_shapes():
    lengths = np.array([[3, 3, 9, 9], [4, 4, 5, 5]])
    assert choose_shapes(lengths, 2) == [(3, 4), (9, 5)]
    assert choose_shapes(lengths, 1) == [(9, 5)]


def test_a_shape_that_saves_nothing_is_not_made():
    assert choose_shapes(np.array([[3, 3], [4, 4]]), 5) == [(3, 4)]


@pytest.mark.parametrize("seed", range(5))
def test_few_shapes_are_as_good_as_the_best_of_all_choices(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, (2, 40))
    top = tuple(lengths.max(axis=1).tolist())
    every = itertools.product(range(1, 7), range(1, 7))
    pairs = lengths.T.tolist()
    best = min(padded(pairs, [one, other, top]) for one, other in itertools.combinations(every, 2))
    assert best <= padded(pairs, choose_shapes(lengths, 3)) <= 1.03 * best


def test_the_last_shape_has_the_longest_source_and_the_longest_target():
    lengths = np.array([[2, 90, 5], [70, 3, 5]])
    assert choose_shapes(lengths, 3)[-1] == (90, 70)


def test_candidates_grow_by_one_and_then_by_eight_percent():
    assert candidates(5).tolist() == [1, 2, 3, 4, 5]
    found = candidates(512)
    assert len(found) < 70 and found[-1] == 512
    assert (found[1:] <= np.maximum(found[:-1] + 1, 1.08 * found[:-1])).all()
