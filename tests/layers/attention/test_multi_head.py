"""Multi-head attention against section 3.2.2 of the paper, written out with loops."""

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.multi_head import MultiHeadAttention
from tfx_transformer.layers.masks import causal_mask

B, T, S, D, H = 2, 5, 7, 12, 3
K = D // H
EARLIER = np.tril(np.ones((T, T), bool))


def check(results, expected):
    for result, want in zip(results[:2], expected, strict=True):
        np.testing.assert_allclose(convert_to_numpy(result), convert_to_numpy(want), atol=1e-5)


def test_self_attention_matches_the_definition(draw, randomize, by_loops):
    x = draw(B, T, D)
    layer = randomize(MultiHeadAttention(D, H), x)
    check(layer.attend(x), by_loops(layer, x, x))


def test_cross_attention_takes_a_context_of_another_width(draw, randomize, by_loops):
    query, context = draw(B, T, 10), draw(B, S, 8)
    layer = randomize(MultiHeadAttention(D, H), query, context)
    check(layer.attend(query, context), by_loops(layer, query, context))


def test_a_mask_hides_keys(draw, randomize, by_loops):
    query, context = draw(B, T, D), draw(B, S, D)
    mask = draw(B, H, T, S) > 0
    mask[1, 2, 3] = False  # no key is allowed for this query
    layer = randomize(MultiHeadAttention(D, H), query, context)
    results = layer.attend(query, context, attention_mask=mask)
    check(results, by_loops(layer, query, context, visible=mask))
    assert not convert_to_numpy(results[1])[~mask].any()


def test_without_qkv_bias_only_the_output_has_one(draw, randomize, by_loops):
    x = draw(B, T, D)
    layer = randomize(MultiHeadAttention(D, H, qkv_bias=False), x)
    assert [weight.path.split("/")[-2:] for weight in layer.weights] == [
        ["query", "kernel"],
        ["key_value", "kernel"],
        ["output", "kernel"],
        ["output", "bias"],
    ]
    check(layer.attend(x), by_loops(layer, x, x))


@pytest.mark.parametrize("position", [None, "rotary", "relative"])
def test_a_precomputed_context_gives_the_same(position, draw, randomize):
    query, context = draw(B, T, D), draw(B, S, 8)
    layer = randomize(MultiHeadAttention(D, H, position=position), query, context)
    check(layer.attend(query, layer.precompute(context)), layer.attend(query, context)[:2])


def test_dropout_is_only_in_training(draw, randomize):
    query, context = draw(B, T, D), draw(B, 2, D)
    alone = np.array([[True, False]])  # one key is allowed, so its weight is 1
    layer = randomize(MultiHeadAttention(D, H, dropout=0.5), query, context)
    layer.out.kernel.assign(np.eye(D))
    layer.out.bias.assign(np.zeros(D))
    value = convert_to_numpy(layer.precompute(context)[1])[:, :, :1]  # (B, H, 1, K)

    def fraction_of_the_value(training):
        output, weights, _ = layer.attend(query, context, attention_mask=alone, training=training)
        np.testing.assert_allclose(convert_to_numpy(weights)[..., 0], 1.0, atol=1e-6)
        heads = convert_to_numpy(output).reshape(B, T, H, K).transpose(0, 2, 1, 3)
        return np.round(heads / value, 5)

    assert np.unique(fraction_of_the_value(training=False)).tolist() == [1.0]
    dropped = fraction_of_the_value(training=True)
    assert np.unique(dropped).tolist() == [0.0, 2.0]
    assert (dropped == dropped[..., :1]).all()  # the weight is dropped, so the whole head


def rotate(x, position):
    """Pairs of neighbors as complex numbers, each rotated by its own angle (arXiv:2104.09864)."""
    pairs = [complex(x[i], x[i + 1]) for i in range(0, K, 2)]
    rotated = [z * np.exp(1j * position / 10_000 ** (2 * i / K)) for i, z in enumerate(pairs)]
    return np.array([part for z in rotated for part in (z.real, z.imag)])


def terms(layer):
    """The arguments of `by_loops` for the layer's position."""
    if layer.position == "rotary":
        return {"rotate": rotate}
    table = convert_to_numpy(layer.position_layer.table)
    return {"bias": lambda h, t, s: table[min(max(s - t, -2), 2) + 2, h]}


POSITIONS = pytest.mark.parametrize(
    "position", ["rotary", {"kind": "relative", "max_distance": 2}], ids=["rotary", "relative"]
)


@POSITIONS
def test_positions_act_inside_attention(position, draw, randomize, by_loops):
    query, context = draw(B, T, D), draw(B, S, D)
    layer = randomize(MultiHeadAttention(D, H, position=position), query, context)
    expected = by_loops(layer, query, context, **terms(layer))
    check(layer.attend(query, context), expected)


@POSITIONS
def test_positions_start_at_the_index(position, draw, randomize, by_loops):
    x = draw(B, T, D)
    layer = randomize(MultiHeadAttention(D, H, position=position), x)
    output, weights = by_loops(layer, x, x, visible=EARLIER, **terms(layer))
    cache = layer.empty_cache(B, T)
    for start, stop in ((0, 2), (2, 4), (4, 5)):
        mask = causal_mask(stop - start, T, start=start)
        *results, cache = layer.attend(
            x[:, start:stop], attention_mask=mask, cache=cache, index=start
        )
        check(results, (output[:, start:stop], weights[:, :, start:stop]))


@POSITIONS
def test_a_decoder_step_takes_a_precomputed_context(position, draw, randomize, by_loops):
    query, context = draw(B, T, D), draw(B, S, D)
    layer = randomize(MultiHeadAttention(D, H, position=position), query, context)
    output, weights = by_loops(layer, query, context, **terms(layer))
    results = layer.attend(query[:, 3:], layer.precompute(context), index=3)
    check(results, (output[:, 3:], weights[:, :, 3:]))


@pytest.mark.parametrize("position", [None, "rotary", "relative"])
def test_the_index_does_not_move_the_context(position, draw, randomize):
    query, context = draw(B, T, D), draw(B, S, D)
    layer = randomize(MultiHeadAttention(D, H, position=position), query, context)
    expected = layer.attend(query, layer.precompute(context), index=3)[:2]
    check(layer.attend(query, context, index=3), expected)


def test_a_single_token_attends_to_itself(draw, randomize, by_loops):
    x = draw(B, 1, D)
    layer = randomize(MultiHeadAttention(D, H), draw(B, T, D))
    check(layer.attend(x), by_loops(layer, x, x))


def test_a_position_for_tokens_is_refused():
    with pytest.raises(ValueError, match="relative, rotary; got position='sinusoidal'"):
        MultiHeadAttention(D, H, position="sinusoidal")


def test_heads_of_odd_width_cannot_be_rotated(draw):
    with pytest.raises(ValueError, match="rotary positions need a width divisible by 2; got 3"):
        MultiHeadAttention(D, 4, position="rotary")(ops.convert_to_tensor(draw(B, T, D)))
