"""Dot-product attention without weights against its formula."""

import math

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.dot import DotAttention

B, T, S, D, H = 2, 5, 7, 12, 3
K = D // H


def by_loops(query, context, visible):
    weights, output = np.zeros((B, H, T, S)), np.zeros((B, T, D))
    for b, h, t in np.ndindex(B, H, T):
        head = slice(h * K, (h + 1) * K)
        for s in range(S):
            if visible[b, h, t, s]:
                weights[b, h, t, s] = math.exp(query[b, t, head] @ context[b, s, head])
        weights[b, h, t] /= weights[b, h, t].sum()
        for s in range(S):
            output[b, t, head] += weights[b, h, t, s] * context[b, s, head]
    return output, weights


def test_matches_the_definition_head_by_head(draw):
    query, context = draw(B, T, D), draw(B, S, D)
    visible = draw(B, H, T, S) > -1
    output, weights, cache = DotAttention(D, H).attend(query, context, attention_mask=visible)
    expected = by_loops(query, context, visible)
    np.testing.assert_allclose(convert_to_numpy(output), expected[0], atol=1e-5)
    np.testing.assert_allclose(convert_to_numpy(weights), expected[1], atol=1e-5)
    assert cache == ()


def test_it_has_no_weights(draw):
    layer = DotAttention(D, H)
    layer(draw(B, T, D))
    assert layer.weights == []


def test_query_and_context_must_be_dim_wide(draw):
    with pytest.raises(ValueError, match=r"query must be dim=12 wide; got shape \(2, 5, 10\)"):
        DotAttention(D, H)(draw(B, T, 10))
    with pytest.raises(ValueError, match=r"context must be dim=12 wide; got shape \(2, 7, 8\)"):
        DotAttention(D, H)(draw(B, T, D), draw(B, S, 8))
