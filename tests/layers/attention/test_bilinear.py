"""Bilinear attention against its formula."""

import math

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.bilinear import BilinearAttention

B, T, S, D, H = 2, 5, 7, 12, 3
K = D // H


def by_loops(matrix, query, context, visible):
    weights, output = np.zeros((B, H, T, S)), np.zeros((B, T, D))
    for b, h, t in np.ndindex(B, H, T):
        head = slice(h * K, (h + 1) * K)
        for s in range(S):
            if visible[b, h, t, s]:
                score = query[b, t] @ matrix[:, head] @ context[b, s, head]
                weights[b, h, t, s] = math.exp(score)
        weights[b, h, t] /= weights[b, h, t].sum()
        for s in range(S):
            output[b, t, head] += weights[b, h, t, s] * context[b, s, head]
    return output, weights


def test_it_equals_its_formula(draw, randomize):
    query, context = draw(B, T, 10), draw(B, S, D)  # the query may have another width
    visible = draw(B, H, T, S) > -1
    layer = randomize(BilinearAttention(D, H), query, context)
    output, weights, _ = layer.attend(query, context, attention_mask=visible)
    matrix = convert_to_numpy(layer.bilinear.kernel)
    expected = by_loops(matrix, query, context, visible)
    np.testing.assert_allclose(convert_to_numpy(output), expected[0], atol=1e-5)
    np.testing.assert_allclose(convert_to_numpy(weights), expected[1], atol=1e-5)


def test_the_matrix_is_the_only_weight(draw, randomize):
    layer = randomize(BilinearAttention(D, H), draw(B, T, 10), draw(B, S, D))
    assert [weight.shape for weight in layer.weights] == [(10, D)]


def test_the_context_must_be_dim_wide(draw):
    with pytest.raises(ValueError, match="context must be dim=12 wide"):
        BilinearAttention(D, H)(draw(B, T, D), draw(B, S, 9))


def test_a_precomputed_context_gives_the_same(draw, randomize):
    query, context = draw(B, T, 10), draw(B, S, D)
    layer = randomize(BilinearAttention(D, H), query, context)
    prepared = layer(query, layer.precompute(context))
    expected = layer(query, context)
    np.testing.assert_array_equal(convert_to_numpy(prepared), convert_to_numpy(expected))
