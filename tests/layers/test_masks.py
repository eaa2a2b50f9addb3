"""Masks against written-out matrices: 1 = may attend."""

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.masks import (
    causal_mask,
    combine_masks,
    expand_mask,
    local_mask,
    padding_mask,
)


def check(mask, expected):
    mask = convert_to_numpy(mask)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask, np.array(expected, bool))


def test_padding_is_masked_for_every_query():
    ids = ops.convert_to_tensor([[5, 0, 7], [0, 0, 2]])
    check(padding_mask(ids), [[[[1, 0, 1]]], [[[0, 0, 1]]]])
    check(padding_mask(ids, pad_id=7), [[[[1, 1, 0]]], [[[1, 1, 1]]]])


def test_the_past_does_not_see_the_future():
    check(causal_mask(3, 3), [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]])
    check(causal_mask(2, 4), [[[[1, 0, 0, 0], [1, 1, 0, 0]]]])
    check(causal_mask(3, 2), [[[[1, 0], [1, 1], [1, 1]]]])


def test_a_causal_mask_moves_with_the_start():
    check(causal_mask(2, 5, start=2), [[[[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]]])
    check(causal_mask(1, 3, start=ops.convert_to_tensor(1)), [[[[1, 1, 0]]]])


def test_a_window_is_a_band():
    check(
        local_mask(4, 5, window=3),
        [[[[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]]],
    )
    check(local_mask(2, 4, window=5), [[[[1, 1, 1, 0], [1, 1, 1, 1]]]])
    check(local_mask(2, 3, window=1), [[[[1, 0, 0], [0, 1, 0]]]])


def test_a_window_moves_with_the_start():
    check(local_mask(2, 6, window=3, start=3), [[[[0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]]]])
    check(local_mask(1, 4, 3, start=ops.convert_to_tensor(5)), [[[[0, 0, 0, 0]]]])


def test_masks_combine_to_what_all_allow():
    padding = padding_mask(ops.convert_to_tensor([[4, 0, 6], [4, 5, 6]]))
    expected = [[[[1, 0, 0], [1, 0, 0], [1, 0, 1]]], [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    check(combine_masks(padding, causal_mask(3, 3)), expected)
    check(combine_masks(None, padding, None, causal_mask(3, 3)), expected)
    narrow = local_mask(3, 3, window=1)
    check(combine_masks(padding, causal_mask(3, 3), narrow)[:1], [[np.diag([1, 0, 1])]])


def test_none_stands_for_no_mask():
    assert combine_masks() is None
    assert combine_masks(None, None) is None
    check(combine_masks(None, causal_mask(1, 2)), [[[[1, 0]]]])


def test_a_mask_gets_four_axes():
    scores_shape = (2, 3, None, 4)  # T is unknown
    assert expand_mask(None, scores_shape) is None
    whole = np.ones((2, 1, 5, 4), bool)
    assert expand_mask(whole, scores_shape) is whole
    assert expand_mask(np.ones((2, 4), bool), scores_shape).shape == (2, 1, 1, 4)
    assert expand_mask(np.ones((2, 5, 4), bool), scores_shape).shape == (2, 1, 5, 4)
    with pytest.raises(ValueError, match=r"my_mask must have shape .* got shape \(2, 5\)"):
        expand_mask(np.ones((2, 5), bool), scores_shape, "my_mask")
