"""The order of batches is a pure function and contains every row once."""

import numpy as np
import pytest

from tfx_transformer.data.buckets import EMPTY, bucket_sizes, epoch_batches, pair_sizes

LENGTHS = np.random.default_rng(1).integers(2, 60, size=1237)
SIZES = bucket_sizes(max_length=60, token_budget=700)


def flat(batches):
    return [(batch.length, batch.rows.tolist()) for batch in batches]


def test_lengths_grow_by_halves_and_thirds_up_to_the_maximum():
    assert list(bucket_sizes(100, 1000)) == [8, 12, 16, 24, 32, 48, 64, 96, 100]
    assert list(bucket_sizes(64, 1000)) == [8, 12, 16, 24, 32, 48, 64]
    assert list(bucket_sizes(5, 1000)) == [5]


def test_a_batch_fills_the_token_budget():
    for length, rows in bucket_sizes(100, 1000).items():
        assert rows * length <= 1000 < (rows + 1) * length


def test_a_token_budget_below_the_longest_row_is_refused():
    with pytest.raises(ValueError, match="token_budget=99, max_length=100"):
        bucket_sizes(100, 99)


@pytest.mark.parametrize("seed", [None, 3])
def test_every_row_occurs_exactly_once(seed):
    rows = np.concatenate([batch.rows for batch in epoch_batches(LENGTHS, SIZES, seed)])
    assert sorted(rows[rows != EMPTY]) == list(range(len(LENGTHS)))


def test_every_row_fits_its_batch_and_every_batch_has_a_known_shape():
    for batch in epoch_batches(LENGTHS, SIZES, seed=3):
        assert len(batch.rows) == SIZES[batch.length]
        assert max(LENGTHS[batch.rows[batch.rows != EMPTY]]) <= batch.length


def test_only_one_batch_has_empty_rows_and_they_are_last():
    batches = epoch_batches(LENGTHS, SIZES, seed=3)
    part_filled = [batch.rows for batch in batches if EMPTY in batch.rows]
    assert len(part_filled) == 1
    assert part_filled[0][0] != EMPTY
    assert (np.diff((part_filled[0] == EMPTY).astype(int)) >= 0).all()


def test_empty_rows_repeat_the_first_one_where_padding_alone_is_not_allowed():
    (batch,) = epoch_batches(np.array([3, 4]), {5: 4}, seed=None)
    assert batch.is_real.tolist() == [True, True, False, False]
    assert batch.filled_rows.tolist() == [0, 1, 0, 0]


def test_rows_move_to_a_longer_bucket_only_if_they_do_not_fill_a_batch():
    batches = epoch_batches(LENGTHS, SIZES, seed=3)
    edges = [0, *SIZES]
    for shorter, longer in zip(edges, edges[1:], strict=False):
        rows = [row for batch in batches if batch.length == longer for row in batch.rows]
        assert sum(LENGTHS[row] <= shorter for row in rows if row != EMPTY) < SIZES.get(shorter, 1)


def test_short_rows_do_not_move_above_the_longest_row():
    lengths = np.array([3, 4, 5, 9])
    (batch,) = epoch_batches(lengths, bucket_sizes(100, 400), seed=None)
    assert batch.length == 12
    assert batch.rows.tolist() == [0, 1, 2, 3] + [EMPTY] * 29


def test_the_same_seed_and_epoch_give_the_same_order():
    assert flat(epoch_batches(LENGTHS, SIZES, 3, 5)) == flat(epoch_batches(LENGTHS, SIZES, 3, 5))


@pytest.mark.parametrize("other", [(3, 6), (4, 5), (5, 3)])
def test_another_seed_or_epoch_gives_another_order_with_as_many_batches(other):
    one, two = epoch_batches(LENGTHS, SIZES, 3, 5), epoch_batches(LENGTHS, SIZES, *other)
    assert flat(one) != flat(two)
    assert len(one) == len(two)


def test_batches_of_different_lengths_are_shuffled():
    lengths = [batch.length for batch in epoch_batches(LENGTHS, SIZES, seed=3)]
    assert lengths != sorted(lengths)


def test_without_a_seed_the_order_is_that_of_the_data():
    batches = epoch_batches(LENGTHS, SIZES, None)
    assert [batch.length for batch in batches] == sorted(batch.length for batch in batches)
    assert batches[0].rows.tolist() == np.flatnonzero(LENGTHS <= 8)[: SIZES[8]].tolist()


def test_pairs_fit_their_batches_on_both_sides_and_only_one_batch_has_empty_rows():
    lengths = np.stack([LENGTHS, np.random.default_rng(2).permutation(LENGTHS)])
    sizes = pair_sizes(lengths, max_length=60, token_budget=700)
    batches = epoch_batches(lengths, sizes, seed=3)
    rows = [batch.rows[batch.is_real] for batch in batches]
    assert sorted(np.concatenate(rows)) == list(range(len(LENGTHS)))
    assert sum(not batch.is_real.all() for batch in batches) <= 1
    for batch, real in zip(batches, rows, strict=True):
        assert (lengths[:, real].max(axis=1) <= batch.length).all()
        assert len(batch.rows) == sizes[batch.length] == 700 // max(batch.length)
