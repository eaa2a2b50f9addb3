"""Noise in sources: what each kind keeps, and that a row's noise depends on its seed alone."""

import numpy as np
import pytest

from tfx_transformer.data.text.noise import NOISE, OMITTED, REACH, add_noise, with_noise

LENGTHS = range(1, 30)


def draws(kind):
    """(n, kept indices) of many rows."""
    return [
        (n, NOISE[kind](n, np.random.default_rng([n, i])).tolist())
        for n in LENGTHS
        for i in range(40)
    ]


def test_trimming_keeps_the_beginning_and_at_least_half():
    found = draws("trimmed")
    assert all(kept == list(range(len(kept))) and 2 * len(kept) >= n for n, kept in found)
    assert {len(kept) for n, kept in found if n == 6} == {3, 4, 5, 6}


def test_omission_keeps_the_order_and_at_least_one_word():
    found = draws("omitted")
    assert all(kept and kept == sorted(set(kept)) and kept[-1] < n for n, kept in found)
    omitted = 1 - sum(len(kept) for _, kept in found) / sum(n for n, _ in found)
    assert omitted == pytest.approx(OMITTED, abs=0.02)


def test_permutation_keeps_all_words_near_their_places():
    found = draws("permuted")
    assert all(sorted(kept) == list(range(n)) for n, kept in found)
    moves = {abs(place - i) for _, kept in found for place, i in enumerate(kept)}
    assert moves == set(range(REACH + 1))


@pytest.mark.parametrize("kind", NOISE)
def test_no_words_remain_no_words(kind):
    assert NOISE[kind](0, np.random.default_rng(0)).tolist() == []
    assert with_noise(kind, ["", "one"]) == ["", "one"]


def test_texts_lose_words_or_order_and_the_seed_decides():
    texts = ["a b c d e f g h i j k l"]
    for kind in NOISE:
        found = [with_noise(kind, texts, seed)[0].split() for seed in range(20)]
        assert {word for words in found for word in words} <= set(texts[0].split())
        assert found == [with_noise(kind, texts, seed)[0].split() for seed in range(20)]
        assert len({tuple(words) for words in found}) > 3


def test_the_rate_is_the_fraction_of_noisy_rows_and_other_rows_stay():
    rows = [np.arange(100 * i, 100 * i + 20) for i in range(400)]
    seeds = [[1, i] for i in range(400)]
    lengths = np.full(400, 20)
    values, kept = add_noise(np.concatenate(rows), lengths, 0.5, seeds)
    found = np.split(values, np.cumsum(kept)[:-1])
    same = [np.array_equal(a, b) for a, b in zip(rows, found, strict=True)]
    assert sum(same) / 400 == pytest.approx(0.5, abs=0.1)
    assert all(set(b) <= set(a) for a, b in zip(rows, found, strict=True))

    half = slice(100, 300)  # the rows of another worker
    values, kept = add_noise(np.concatenate(rows[half]), lengths[half], 0.5, seeds[half])
    for one, other in zip(np.split(values, np.cumsum(kept)[:-1]), found[half], strict=True):
        np.testing.assert_array_equal(one, other)
