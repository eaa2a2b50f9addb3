"""Additive attention against its formula."""

import math

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.additive import AdditiveAttention
from tfx_transformer.layers.masks import causal_mask

B, T, S, D, H = 2, 5, 7, 12, 3
QUERY, CONTEXT = 10, 9  # widths of query and context
K, V = D // H, CONTEXT // H  # widths of a head's keys and values


def by_loops(layer, query, context, visible):
    w, u = convert_to_numpy(layer.query.kernel), convert_to_numpy(layer.key.kernel)
    bias, energy = convert_to_numpy(layer.query.bias), convert_to_numpy(layer.energy)
    weights, output = np.zeros((B, H, T, S)), np.zeros((B, T, CONTEXT))
    for b, h, t in np.ndindex(B, H, T):
        head, value = slice(h * K, (h + 1) * K), slice(h * V, (h + 1) * V)
        for s in range(S):
            if visible[b, h, t, s]:
                inner = query[b, t] @ w[:, head] + context[b, s] @ u[:, head] + bias[head]
                weights[b, h, t, s] = math.exp(energy[h] @ np.tanh(inner))
        weights[b, h, t] /= weights[b, h, t].sum()
        for s in range(S):
            output[b, t, value] += weights[b, h, t, s] * context[b, s, value]
    return output, weights


def test_it_equals_its_formula(draw, randomize):
    query, context = draw(B, T, QUERY), draw(B, S, CONTEXT)
    visible = draw(B, H, T, S) > -1
    layer = randomize(AdditiveAttention(D, H), query, context)
    expected = by_loops(layer, query, context, visible)
    for given in (context, layer.precompute(context)):
        output, weights, _ = layer.attend(query, given, attention_mask=visible)
        np.testing.assert_allclose(convert_to_numpy(output), expected[0], atol=1e-5)
        np.testing.assert_allclose(convert_to_numpy(weights), expected[1], atol=1e-5)


def test_each_head_has_its_own_energy(draw, randomize):
    query, context = draw(B, T, QUERY), draw(B, S, CONTEXT)
    layer = randomize(AdditiveAttention(D, H), query, context)
    before = convert_to_numpy(layer.attend(query, context)[1])
    energy = convert_to_numpy(layer.energy).copy()
    energy[1] += 1.0
    layer.energy.assign(energy)
    moved = np.abs(convert_to_numpy(layer.attend(query, context)[1]) - before).max(axis=(0, 2, 3))
    assert (moved > 1e-3).tolist() == [False, True, False]


def test_step_by_step_equals_all_at_once_at_any_width(draw, randomize):
    x = draw(B, T, CONTEXT)
    layer = randomize(AdditiveAttention(D, H), x)
    whole = convert_to_numpy(layer(x, attention_mask=causal_mask(T, T)))
    cache = layer.empty_cache(B, T)
    for t in range(T):
        mask = causal_mask(1, T, start=t)
        output, _, cache = layer.attend(x[:, t : t + 1], attention_mask=mask, cache=cache, index=t)
        np.testing.assert_allclose(convert_to_numpy(output)[:, 0], whole[:, t], atol=1e-5)


def test_heads_must_divide_the_context(draw):
    with pytest.raises(ValueError, match="num_heads=3.*10"):
        AdditiveAttention(D, H)(draw(B, T, D), draw(B, S, 10))


def test_one_bias_is_enough(draw, randomize):
    layer = randomize(AdditiveAttention(D, H), draw(B, T, QUERY), draw(B, S, CONTEXT))
    shapes = sorted(tuple(weight.shape) for weight in layer.weights)
    assert shapes == sorted([(QUERY, D), (D,), (CONTEXT, D), (H, K)])
