"""Local attention: a band of keys around each query."""

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.local import LocalAttention
from tfx_transformer.layers.masks import causal_mask

B, T, S, D, H = 2, 4, 6, 12, 3
BAND = np.array(  # window 3: each query, the one before and the one after it
    [
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0],
        [0, 0, 1, 1, 1, 0],
    ],
    bool,
)


def check(results, expected):
    for result, want in zip(results[:2], expected, strict=True):
        np.testing.assert_allclose(convert_to_numpy(result), want, atol=1e-5)


def test_a_query_attends_to_its_window(draw, randomize, by_loops):
    x = draw(B, T, D)
    layer = randomize(LocalAttention(D, H, window=3), x)
    check(layer.attend(x), by_loops(layer, x, x, visible=BAND[:, :T]))


def test_the_window_applies_to_cross_attention(draw, randomize, by_loops):
    query, context = draw(B, T, D), draw(B, S, 8)
    layer = randomize(LocalAttention(D, H, window=3), query, context)
    expected = by_loops(layer, query, context, visible=BAND)
    check(layer.attend(query, context), expected)
    step = (expected[0][:, 2:], expected[1][:, :, 2:])  # queries 2 and 3 alone
    check(layer.attend(query[:, 2:], layer.precompute(context), index=2), step)


def test_the_window_and_a_mask_are_combined(draw, randomize, by_loops):
    query, context = draw(B, T, D), draw(B, S, D)
    mask = draw(B, 1, 1, S) > 0
    layer = randomize(LocalAttention(D, H, window=3), query, context)
    results = layer.attend(query, context, attention_mask=mask)
    check(results, by_loops(layer, query, context, visible=BAND & mask))


def test_the_window_moves_with_the_index(draw, randomize, by_loops):
    x = draw(B, T, D)
    layer = randomize(LocalAttention(D, H, window=3), x)
    visible = np.zeros((T, S), bool)  # the cache holds S positions; later ones are masked
    visible[:, :T] = BAND[:, :T] & np.tril(np.ones((T, T), bool))
    output, weights = by_loops(layer, x, np.pad(x, ((0, 0), (0, S - T), (0, 0))), visible)
    cache = layer.empty_cache(B, S)
    for start, stop in ((0, 2), (2, 3), (3, 4)):
        mask = causal_mask(stop - start, S, start=start)
        *results, cache = layer.attend(
            x[:, start:stop], attention_mask=mask, cache=cache, index=start
        )
        check(results, (output[:, start:stop], weights[:, :, start:stop]))


def test_a_window_wider_than_the_sequence_is_plain_attention(draw, randomize, by_loops):
    x = draw(B, T, D)
    layer = randomize(LocalAttention(D, H, window=21), x)
    check(layer.attend(x), by_loops(layer, x, x))


def test_an_even_window_is_refused():
    with pytest.raises(ValueError, match="window must be odd; got window=4"):
        LocalAttention(D, H, window=4)
    with pytest.raises(ValueError, match="window=-3"):
        LocalAttention(D, H, window=-3)


@pytest.mark.parametrize("length", [33, 70])  # queries; blocks have 32
@pytest.mark.parametrize("keys", [29, 70, 101])
@pytest.mark.parametrize("kind", ["none", "padding", "pairs", "causal"])
def test_blocks_equal_the_scores_of_all_pairs(length, keys, kind, draw, randomize):
    query, context = draw(B, length, D), draw(B, keys, D)
    padding, pairs = draw(B, keys) > -1, draw(B, H, length, keys) > -1
    mask = {
        "none": None,
        "padding": padding,
        "pairs": pairs,
        "causal": causal_mask(length, keys),
    }[kind]
    layer = LocalAttention(D, H, window=9, position={"kind": "relative", "max_distance": 3})
    randomize(layer, query, context)
    output, weights, _ = layer.attend(query, context, attention_mask=mask)
    _, values = layer.precompute(context)
    expected = layer.sum_values(weights, values, training=False)
    np.testing.assert_allclose(convert_to_numpy(output), convert_to_numpy(expected), atol=1e-5)
