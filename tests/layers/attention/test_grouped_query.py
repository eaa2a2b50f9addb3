"""Grouped-query attention against arXiv:2305.13245, written out with loops."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.grouped_query import GroupedQueryAttention
from tfx_transformer.layers.masks import causal_mask

B, T, S, D, H = 2, 5, 7, 12, 6
K = D // H


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, 6])
def test_groups_of_heads_share_keys_and_values(num_kv_heads, draw, randomize, by_loops):
    query, context = draw(B, T, D), draw(B, S, 8)
    mask = draw(B, H, T, S) > -0.5
    layer = randomize(GroupedQueryAttention(D, H, num_kv_heads), query, context)
    output, weights, _ = layer.attend(query, context, attention_mask=mask)
    expected = by_loops(layer, query, context, visible=mask)
    np.testing.assert_allclose(convert_to_numpy(output), expected[0], atol=1e-5)
    np.testing.assert_allclose(convert_to_numpy(weights), expected[1], atol=1e-5)


def test_neighboring_heads_form_a_group(draw, randomize):
    query, context = draw(B, T, D), draw(B, S, D)
    layer = randomize(GroupedQueryAttention(D, H, num_kv_heads=2), query, context)
    before = convert_to_numpy(layer.attend(query, context)[1])
    kernel = convert_to_numpy(layer.key_value.kernel).copy()
    kernel[:, :K] += 1.0  # the keys of the first of the two heads
    layer.key_value.kernel.assign(kernel)
    moved = np.abs(convert_to_numpy(layer.attend(query, context)[1]) - before).max(axis=(0, 2, 3))
    assert (moved > 1e-3).tolist() == [True, True, True, False, False, False]


@pytest.mark.parametrize("num_kv_heads", [1, 2])
def test_only_the_shared_heads_are_cached(num_kv_heads, draw, randomize, by_loops):
    x = draw(B, T, D)
    layer = randomize(GroupedQueryAttention(D, H, num_kv_heads), x)
    expected, _ = by_loops(layer, x, x, visible=np.tril(np.ones((T, T), bool)))
    cache = layer.empty_cache(B, T)
    for t in range(T):
        assert [part.shape for part in cache] == [(B, num_kv_heads, T, K)] * 2
        mask = causal_mask(1, T, start=t)
        output, _, cache = layer.attend(x[:, t : t + 1], attention_mask=mask, cache=cache, index=t)
        np.testing.assert_allclose(convert_to_numpy(output)[:, 0], expected[:, t], atol=1e-5)


def test_sequences_may_have_any_length(draw, randomize, by_loops):
    x = keras.Input((None, D))
    layer = GroupedQueryAttention(D, H, num_kv_heads=2)
    model = randomize(keras.Model(x, layer(x)))
    for length in (T, S):
        x = draw(B, length, D)
        expected, _ = by_loops(layer, x, x)
        np.testing.assert_allclose(convert_to_numpy(model(x)), expected, atol=1e-5)


def test_keys_and_values_are_as_small_as_their_heads(draw, randomize):
    layer = randomize(GroupedQueryAttention(D, H, num_kv_heads=2), draw(B, T, D))
    assert layer.key_value.kernel.shape == (D, 2 * 2 * K)


def test_num_kv_heads_must_divide_num_heads():
    with pytest.raises(ValueError, match="num_kv_heads=4, num_heads=6"):
        GroupedQueryAttention(D, H, num_kv_heads=4)
    with pytest.raises(ValueError, match="num_kv_heads=0"):
        GroupedQueryAttention(D, H, num_kv_heads=0)
