"""Batches of texts and image tokens."""

import numpy as np
import pytest

from tfx_transformer.data.captions.token_batches import TextImageBatches
from tfx_transformer.data.share import Share
from tfx_transformer.data.text.tokenizer import START

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(20, 27, (4, 6))  # N, I
TEXTS = RNG.integers(4, 11, (7, 3))  # M, T
IS_WORD = np.array(
    [[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]], bool
)
ROWS = np.array([0, 0, 1, 2, 2, 3, 3])


def make(**options):
    return TextImageBatches(TEXTS, IS_WORD, IMAGES, ROWS, **{"batch_size": 3} | options)


def as_arrays(dataset):
    return [[x.numpy() for x in batch] for batch in dataset]


def test_a_row_is_the_text_and_its_image_and_the_targets_are_the_next_tokens():
    batches = as_arrays(make(seed=None).dataset())
    assert len(batches) == 3
    rows = np.concatenate([targets for _, targets, _ in batches])
    np.testing.assert_array_equal(rows[:7], np.concatenate([TEXTS, IMAGES[ROWS]], axis=1))
    for tokens, targets, _ in batches:
        assert (tokens[:, 0] == START).all() and tokens.shape == targets.shape == (3, 9)
        np.testing.assert_array_equal(tokens[:, 1:], targets[:, :-1])


@pytest.mark.parametrize("weight", [1 / 8, 0.4, 0.0])
def test_words_have_their_part_of_the_weight_and_padding_has_none(weight):
    for number, (_, _, weights) in enumerate(
        as_arrays(make(seed=None, text_weight=weight).dataset())
    ):
        assert weights[:, :3].sum() / weights.sum() == pytest.approx(weight)
        rows = range(3 * number, min(3 * number + 3, 7))
        assert (weights[: len(rows), 3:] == 1).all() and not weights[len(rows) :].any()
        if weight:
            assert ((weights[: len(rows), :3] > 0) == IS_WORD[rows]).all()


def test_every_text_comes_once_in_an_epoch_in_an_order_of_its_own():
    data, orders = make(seed=5), []
    for epoch in (0, 1):
        batches = as_arrays(data.dataset(epoch))
        rows = [tuple(x) for _, targets, w in batches for x in targets[w.any(axis=1)]]
        assert sorted(rows) == sorted(map(tuple, np.concatenate([TEXTS, IMAGES[ROWS]], axis=1)))
        orders.append(rows)
    assert orders[0] != orders[1]


def test_a_stream_continues_anywhere():
    data = make(seed=5)
    whole = as_arrays(data.stream().take(5))
    rest = as_arrays(data.stream(*divmod(2, data.steps_per_epoch)).take(3))
    for a, b in zip(whole[2:], rest, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_two_workers_share_each_batch():
    whole, parts = as_arrays(make().dataset()), []
    for index in (0, 1):
        data = make()
        data.divide(Share(index, 2, 2))
        parts.append(as_arrays(data.dataset()))
    for batch, *own in zip(whole, *parts, strict=True):
        joined = [np.concatenate(x) for x in zip(*own, strict=True)]
        for x, y in zip(batch, joined, strict=True):
            np.testing.assert_array_equal(x, y[:3])
        assert not joined[2][3:].any()


def test_the_text_weight_is_a_part_of_one():
    with pytest.raises(ValueError, match="text_weight must lie in 0 <= text_weight < 1; got"):
        make(text_weight=1.0)
