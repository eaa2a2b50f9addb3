"""The functions of dot-product attention against loops."""

import math

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.dot_product import (
    dot_product_scores,
    masked_softmax,
    merge_heads,
    scaled_dot_product_scores,
    split_heads,
    weighted_sum,
)

B, T, S, H, K = 2, 5, 7, 6, 4
GROUPS = pytest.mark.parametrize("num_groups", [1, 2, 3, 6])


def softmax(row):
    energy = [math.exp(x - max(row)) for x in row]
    return [e / sum(energy) for e in energy]


def test_softmax_is_over_the_keys(draw):
    scores = draw(B, H, T, S)
    weights = convert_to_numpy(masked_softmax(ops.convert_to_tensor(scores)))
    for row in np.ndindex(B, H, T):
        np.testing.assert_allclose(weights[row], softmax(scores[row]), atol=1e-6)


def test_only_visible_keys_have_weight(draw):
    scores, mask = draw(B, H, T, S), draw(B, 1, T, S) > 0
    mask[1, 0, 2] = False  # a row without an allowed key
    weights = convert_to_numpy(masked_softmax(ops.convert_to_tensor(scores), mask))
    for b, h, t in np.ndindex(B, H, T):
        allowed = mask[b, 0, t]
        expected = np.zeros(S)
        if allowed.any():
            expected[allowed] = softmax(scores[b, h, t][allowed])
        np.testing.assert_allclose(weights[b, h, t], expected, atol=1e-6)
    np.testing.assert_array_equal(weights[1, :, 2], 0.0)


@pytest.mark.parametrize("masked", [True, False])
def test_large_scores_in_half_precision_stay_finite(masked):
    scores = np.array([[60_000.0, -60_000.0, 59_968.0], [-60_000.0] * 3], "float16")
    mask = np.array([[True, True, False], [True, True, False]]) if masked else None
    weights = masked_softmax(ops.convert_to_tensor(scores), mask)
    third = 0.5 if masked else 1 / 3
    expected = [[1, 0, 0], [third, third, 0 if masked else third]]
    np.testing.assert_allclose(convert_to_numpy(weights), expected, atol=1e-6)


@GROUPS
def test_scores_are_products_of_a_query_and_the_key_of_its_group(num_groups, draw):
    q, k = draw(B, H, T, K), draw(B, num_groups, S, K)
    expected = np.zeros((B, H, T, S))
    for b, h, t, s in np.ndindex(*expected.shape):
        expected[b, h, t, s] = q[b, h, t] @ k[b, h * num_groups // H, s]
    q, k = ops.convert_to_tensor(q), ops.convert_to_tensor(k)
    scores = dot_product_scores(q, k)
    np.testing.assert_allclose(convert_to_numpy(scores), expected, atol=1e-5)
    scores = scaled_dot_product_scores(q, k)
    np.testing.assert_allclose(convert_to_numpy(scores), expected / 2, atol=1e-5)  # √K = 2


def test_queries_are_scaled_before_the_product_overflows():
    q = k = ops.full((1, 1, 1, 16), 90.0, dtype="float16")
    scores = convert_to_numpy(scaled_dot_product_scores(q, k))  # 16·90·90 is above 65504
    np.testing.assert_allclose(scores.astype("float64"), 16 * 90 * 90 / 4, rtol=1e-3)


@GROUPS
def test_values_of_a_group_are_summed_by_weight(num_groups, draw):
    weights, v = draw(B, H, T, S), draw(B, num_groups, S, K)
    expected = np.zeros((B, H, T, K))
    for b, h, t, s in np.ndindex(B, H, T, S):
        expected[b, h, t] += weights[b, h, t, s] * v[b, h * num_groups // H, s]
    result = weighted_sum(ops.convert_to_tensor(weights), ops.convert_to_tensor(v))
    np.testing.assert_allclose(convert_to_numpy(result), expected, atol=1e-5)


def test_weights_take_the_precision_of_the_values(draw):
    weights = ops.convert_to_tensor(draw(B, H, T, S))
    v = ops.cast(draw(B, H, S, K), "float16")
    assert weighted_sum(weights, v).dtype == v.dtype


def test_each_head_has_its_own_features(draw):
    x = draw(B, T, H * K)
    heads = convert_to_numpy(split_heads(ops.convert_to_tensor(x), H))
    assert heads.shape == (B, H, T, K)
    for b, h, t, i in np.ndindex(B, H, T, K):
        assert heads[b, h, t, i] == x[b, t, h * K + i]


def test_merging_undoes_splitting(draw):
    x = draw(B, T, H * K)
    merged = merge_heads(split_heads(ops.convert_to_tensor(x), H))
    np.testing.assert_array_equal(convert_to_numpy(merged), x)
