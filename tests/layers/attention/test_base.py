"""The forward path that all attention layers share: cache, context and early errors."""

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.base import Attention, write_cache
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention
from tfx_transformer.layers.masks import causal_mask

B, T, S, D, H = 2, 5, 7, 12, 3
K = D // H


def close(result, expected):
    np.testing.assert_allclose(convert_to_numpy(result), expected, atol=1e-5)


def test_the_base_layer_is_dot_product_attention_without_weights(draw):
    query, context = draw(B, T, D), draw(B, S, D)
    output, weights, cache = Attention(D, H).attend(query, context)
    assert cache == ()
    for b, h, t in np.ndindex(B, H, T):
        head = slice(h * K, (h + 1) * K)
        energy = np.exp([query[b, t, head] @ context[b, s, head] for s in range(S)])
        close(weights[b, h, t], energy / energy.sum())
        close(output[b, t, head], energy / energy.sum() @ context[b, :, head])


def test_without_a_context_it_is_self_attention(draw):
    x = draw(B, T, D)
    layer = Attention(D, H)
    close(layer(x), convert_to_numpy(layer(x, x)))


def test_keys_and_values_are_written_at_the_index(draw):
    old, new = draw(2, B, H, S, K), draw(2, B, H, 3, K)  # keys and values each
    keys, values = map(ops.convert_to_tensor, new)
    written = write_cache(tuple(map(ops.convert_to_tensor, old)), keys, values, 2)
    old[:, :, :, 2:5] = new
    for part, expected in zip(written, old, strict=True):
        np.testing.assert_array_equal(convert_to_numpy(part), expected)


@pytest.mark.parametrize("kind", [int, ops.convert_to_tensor], ids=["number", "tensor"])
def test_step_by_step_equals_all_at_once(kind, draw, randomize):
    x = draw(B, T, D)
    layer = randomize(MultiHeadAttention(D, H), x)
    whole, whole_weights, _ = layer.attend(x, attention_mask=causal_mask(T, T))
    cache = layer.empty_cache(B, S)
    for start, stop in ((0, 3), (3, 4), (4, 5)):  # three tokens at once, then one by one
        output, weights, cache = layer.attend(
            x[:, start:stop],
            attention_mask=causal_mask(stop - start, S, start=start),
            cache=cache,
            index=kind(start),
        )
        close(output, convert_to_numpy(whole)[:, start:stop])
        close(weights[..., :T], convert_to_numpy(whole_weights)[:, :, start:stop])
        assert not convert_to_numpy(weights)[..., stop:].any()


def test_unwritten_positions_of_the_cache_are_masked(draw, randomize):
    x = draw(B, T, D)
    layer = randomize(MultiHeadAttention(D, H), x)
    garbage = [ops.convert_to_tensor(100 * draw(B, H, S, K)) for _ in range(2)]
    expected = layer(x, attention_mask=causal_mask(T, T))
    output, weights, cache = layer.attend(x[:, :3], cache=garbage, index=0)  # no mask at all
    close(output, convert_to_numpy(expected)[:, :3])
    assert not convert_to_numpy(weights)[..., 3:].any()
    output, weights, _ = layer.attend(x[:, 3:], cache=cache, index=3)
    close(output, convert_to_numpy(expected)[:, 3:])
    assert not convert_to_numpy(weights)[..., T:].any()


def test_a_precomputed_context_gives_the_same(draw):
    query, context = draw(B, T, D), draw(B, S, D)
    layer = Attention(D, H)
    expected = convert_to_numpy(layer(query, context))
    keys, values = layer.precompute(context)
    assert keys.shape == values.shape == (B, H, S, K)
    close(layer(query, (keys, values)), expected)


def test_an_empty_cache_has_the_given_length():
    keys, values = Attention(D, H).empty_cache(B, S)
    assert keys.shape == values.shape == (B, H, S, K)
    assert not convert_to_numpy(keys).any() and not convert_to_numpy(values).any()


def test_a_context_has_no_cache(draw):
    layer = Attention(D, H)
    with pytest.raises(ValueError, match="context and cache exclude each other"):
        layer(draw(B, 1, D), draw(B, S, D), cache=layer.empty_cache(B, S))


def test_dropout_changes_the_output_but_not_the_scores(draw):
    query, context = draw(B, T, D), draw(B, S, D)
    plain, layer = Attention(D, H), Attention(D, H, dropout=0.5)
    expected, weights, _ = plain.attend(query, context)
    close(layer(query, context, training=False), convert_to_numpy(expected))
    output, same, _ = layer.attend(query, context, training=True)
    close(same, convert_to_numpy(weights))
    assert np.abs(convert_to_numpy(output) - convert_to_numpy(expected)).max() > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 12, "num_heads": 5}, "num_heads must divide dim; got num_heads=5, dim=12"),
        ({"dim": 0}, "dim must be a whole number above zero; got dim=0"),
        ({"dim": 12.0}, "got dim=12.0"),
        ({"dim": 12, "num_heads": -3}, "got num_heads=-3"),
        ({"dim": 12, "num_heads": True}, "got num_heads=True"),
        ({"dim": 12, "dropout": 1.0}, "dropout must lie in 0 <= dropout < 1; got dropout=1.0"),
        ({"dim": 12, "dropout": -0.1}, "got dropout=-0.1"),
        ({"dim": 12, "dropout": "a"}, "got dropout='a'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Attention(**arguments)


def test_a_full_cache_is_an_error(draw):
    layer = Attention(D, H)
    cache = layer.empty_cache(B, 4)
    with pytest.raises(ValueError, match="the cache holds 4 positions; got 5"):
        layer(draw(B, 3, D), cache=cache, index=2)


def test_self_attention_at_a_later_index_needs_a_cache(draw):
    with pytest.raises(ValueError, match="self-attention at index=2 needs a cache"):
        Attention(D, H)(draw(B, 3, D), index=2)


def test_precompute_needs_a_built_layer(draw):
    with pytest.raises(ValueError, match="precompute needs a built layer"):
        Attention(D, H).precompute(draw(B, 3, D))
