"""The block: sub-layers, residuals and norms against NumPy."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.block import TransformerBlock
from tfx_transformer.layers.masks import causal_mask

B, T, S, D, H, F = 2, 5, 7, 12, 3, 16
NORM_FIRST = pytest.mark.parametrize("norm_first", [True, False])


def number(layer):
    """The layer as a function from NumPy to NumPy."""

    def call(x, *args, **kwargs):
        return convert_to_numpy(layer(x.astype("float32"), *args, **kwargs))

    return call


def close(result, expected):
    np.testing.assert_allclose(convert_to_numpy(result), expected, atol=2e-5)


@NORM_FIRST
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_an_encoder_block_is_attention_and_feed_forward(norm_first, norm, draw, randomize):
    x, mask = draw(B, T, D), draw(B, 1, T, T) > -0.5
    block = randomize(TransformerBlock(D, H, F, norm=norm, norm_first=norm_first), x)
    norm_1, norm_2 = number(block.self_norm), number(block.mlp_norm)
    attention, mlp = number(block.self_attention), number(block.mlp)

    if norm_first:
        y = x + attention(norm_1(x), attention_mask=mask)
        expected = y + mlp(norm_2(y))
    else:
        y = norm_1(x + attention(x, attention_mask=mask))
        expected = norm_2(y + mlp(y))
    output, weights, cache = block.attend(x, attention_mask=mask)
    close(output, expected)
    assert list(weights) == ["self"] and cache == ()
    query = norm_1(x) if norm_first else x
    close(
        weights["self"],
        convert_to_numpy(block.self_attention.attend(query, attention_mask=mask)[1]),
    )


def test_layer_scale_multiplies_the_output_of_each_sub_layer(draw, randomize):
    x, context = draw(B, T, D), draw(B, S, D)
    block = TransformerBlock(D, H, F, cross_attention="multi_head", layer_scale=0.25)
    block(x, context)
    scales = [block.self_scale, block.cross_scale, block.mlp_scale]
    for scale in scales:
        np.testing.assert_array_equal(convert_to_numpy(scale), np.full(D, 0.25, "float32"))
    randomize(block)
    a, b, c = (convert_to_numpy(scale) for scale in scales)
    norms = [number(norm) for norm in (block.self_norm, block.cross_norm, block.mlp_norm)]

    y = x + a * number(block.self_attention)(norms[0](x))
    y = y + b * number(block.context_attention)(norms[1](y), context)
    y = y + c * number(block.mlp)(norms[2](y))
    close(block(x, context), y)


def test_layer_scale_must_be_above_zero():
    with pytest.raises(ValueError, match="layer_scale must be above zero; got layer_scale=0"):
        TransformerBlock(D, H, F, layer_scale=0)


@NORM_FIRST
def test_a_decoder_block_attends_to_a_context(norm_first, draw, randomize):
    x, context = draw(B, T, D), draw(B, S, 8)
    mask, cross_mask = causal_mask(T, T), draw(B, 1, 1, S) > 0
    block = TransformerBlock(D, H, F, cross_attention="multi_head", norm_first=norm_first)
    randomize(block, x, context)
    norms = [number(norm) for norm in (block.self_norm, block.cross_norm, block.mlp_norm)]
    attention, cross = number(block.self_attention), number(block.context_attention)
    mlp = number(block.mlp)

    if norm_first:
        y = x + attention(norms[0](x), attention_mask=mask)
        query = norms[1](y)
        z = y + cross(query, context, attention_mask=cross_mask)
        expected = z + mlp(norms[2](z))
    else:
        query = norms[0](x + attention(x, attention_mask=mask))
        z = norms[1](query + cross(query, context, attention_mask=cross_mask))
        expected = norms[2](z + mlp(z))
    for given in (context, block.precompute(context)):
        output, weights, _ = block.attend(x, given, attention_mask=mask, cross_mask=cross_mask)
        close(output, expected)
        assert weights["self"].shape == (B, H, T, T)
        again = block.context_attention.attend(query, context, attention_mask=cross_mask)[1]
        close(weights["cross"], convert_to_numpy(again))


@NORM_FIRST
def test_step_by_step_equals_all_at_once(norm_first, draw, randomize):
    x, context = draw(B, T, D), draw(B, S, D)
    spec = {"kind": "grouped_query", "num_kv_heads": 1, "position": "rotary"}
    block = TransformerBlock(
        D, H, F, attention=spec, cross_attention="multi_head", norm_first=norm_first
    )
    randomize(block, x, context)
    cross_mask = draw(B, 1, 1, S) > 0
    whole = block(x, context, attention_mask=causal_mask(T, T), cross_mask=cross_mask)
    precomputed, cache = block.precompute(context), block.empty_cache(B, T)
    for start, stop in ((0, 2), (2, 3), (3, 5)):
        mask = causal_mask(stop - start, T, start=start)
        output, _, cache = block.attend(
            x[:, start:stop],
            precomputed,
            attention_mask=mask,
            cross_mask=cross_mask,
            cache=cache,
            index=start,
        )
        close(output, convert_to_numpy(whole)[:, start:stop])


def test_a_precomputed_context_needs_no_mask(draw, randomize):
    x, context = draw(B, T, D), draw(B, S, D)
    block = randomize(TransformerBlock(D, H, F, cross_attention="multi_head"), x, context)
    expected = convert_to_numpy(block(x, context))
    close(block(x, block.precompute(context)), expected)


def silence(dense):
    for weight in dense.weights:
        weight.assign(np.zeros(weight.shape))


@pytest.mark.parametrize("kind", ["dropout", "drop_path"])
def test_in_training_parts_of_the_residual_are_dropped(kind, draw, randomize):
    x = draw(40, T, D)
    block = randomize(TransformerBlock(D, H, F, **{kind: 0.5}), x)
    silence(block.mlp.down)  # only attention adds something
    added = number(block.self_attention)(number(block.self_norm)(x))
    close(block(x, training=False), x + added)
    change = convert_to_numpy(block(x, training=True)) - x
    gone, doubled = np.abs(change) < 1e-4, np.abs(change - 2 * added) < 1e-4
    assert (gone | doubled).all()
    assert 0.2 < gone.mean() < 0.8
    whole = gone.all(axis=(1, 2))  # the whole example is dropped
    if kind == "dropout":
        assert not whole.any()
    else:
        assert doubled[~whole].all()


def test_each_sub_layer_is_dropped_by_itself(draw, randomize):
    x = draw(40, T, D)
    block = randomize(TransformerBlock(D, H, F, drop_path=0.5), x)
    attention, mlp = number(block.self_attention), number(block.mlp)
    norm_1, norm_2 = number(block.self_norm), number(block.mlp_norm)
    after = [x, x + 2 * attention(norm_1(x))]  # without and with the first
    expected = [y + scale * mlp(norm_2(y)) for y in after for scale in (0, 2)]
    output = convert_to_numpy(block(x, training=True))
    distance = np.array(
        [np.abs(output - option).max(axis=(1, 2)) for option in expected]
    )  # (4, 40)
    assert distance.min(axis=0).max() < 1e-4
    assert set(distance.argmin(axis=0)) == {0, 1, 2, 3}


def test_batch_norm_ignores_padding(draw, randomize):
    x, real = draw(B, T, D), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    garbage = np.where(real[..., None], x, 100 * draw(B, T, D))
    block = randomize(TransformerBlock(D, H, F, norm="batch"), x)

    def run(x, token_mask):
        mask = real[:, None, None]
        output = block(x, attention_mask=mask, token_mask=token_mask, training=True)
        return convert_to_numpy(output)[real]

    np.testing.assert_allclose(run(x, real), run(garbage, real), atol=1e-4)
    assert np.abs(run(x, None) - run(garbage, None)).max() > 0.1


def test_two_blocks_in_a_sequential_model_train_and_load(draw, tmp_path):
    blocks = [TransformerBlock(D, H, F) for _ in range(2)]
    model = keras.Sequential([keras.Input((None, D)), *blocks, keras.layers.Dense(3)])
    model.compile("sgd", "mse", jit_compile=False)
    x = draw(B, T, D)
    model.fit(x, draw(B, T, 3), verbose=0)
    model.save(tmp_path / "blocks.keras")
    loaded = keras.saving.load_model(tmp_path / "blocks.keras")
    close(loaded(x), convert_to_numpy(model(x)))


def test_a_functional_model_of_an_encoder_and_a_decoder_loads(draw, tmp_path):
    source, target = keras.Input((None, D)), keras.Input((None, D))
    mask = keras.Input((None,), dtype="bool")  # a padding mask (B, S)
    encoder = TransformerBlock(D, H, F)
    decoder = TransformerBlock(D, H, F, cross_attention="multi_head")
    memory = encoder(source, attention_mask=mask)
    output, scores = decoder(target, memory, cross_mask=mask, return_attention_scores=True)
    model = keras.Model([source, target, mask], {"output": output} | scores)
    inputs = [draw(B, S, D), draw(B, T, D), draw(B, S) > -1]
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    result = keras.saving.load_model(tmp_path / "model.keras")(inputs)
    assert set(result) == {"output", "self", "cross"}
    for name, value in result.items():
        close(value, convert_to_numpy(expected[name]))
    assert not convert_to_numpy(result["cross"])[
        ~np.broadcast_to(inputs[2][:, None, None], (B, H, T, S))
    ].any()


def test_a_wrong_cross_mask_is_named(draw):
    x, context = draw(B, T, D), draw(B, S, D)
    block = TransformerBlock(D, H, F, cross_attention="multi_head")
    block(x, context)
    for given in (context, block.precompute(context)):
        with pytest.raises(ValueError, match=r"cross_mask must have shape .* got shape \(2, 5\)"):
            block(x, given, cross_mask=np.ones((B, T), bool))
    with pytest.raises(ValueError, match="cross_mask must be boolean, .* got dtype float32"):
        block(x, context, cross_mask=draw(B, S))
    with pytest.raises(ValueError, match="attention_mask must be boolean, .* got dtype float32"):
        block(x, context, attention_mask=draw(B, T))


def test_context_and_cross_attention_go_together(draw):
    x, context = draw(B, T, D), draw(B, S, D)
    with pytest.raises(ValueError, match="cross_attention=None and context given"):
        TransformerBlock(D, H, F)(x, context)
    with pytest.raises(ValueError, match="cross_attention='multi_head' and context None"):
        TransformerBlock(D, H, F, cross_attention="multi_head")(x)


def test_options_reach_the_parts():
    block = TransformerBlock(
        D,
        H,
        F,
        attention={"kind": "local", "window": 5},
        cross_attention="additive",
        activation="swiglu",
        norm={"kind": "layer", "epsilon": 1e-3},
        initializer="he_normal",
    )
    assert type(block.self_attention).__name__ == "LocalAttention"
    assert block.self_attention.window == 5
    assert type(block.context_attention).__name__ == "AdditiveAttention"
    assert block.mlp.activation == "swiglu"
    assert block.self_norm.epsilon == block.cross_norm.epsilon == block.mlp_norm.epsilon == 1e-3
    parts = (block.self_attention, block.context_attention, block.mlp)
    assert {part.initializer for part in parts} == {"he_normal"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mlp_dim": 0}, "got mlp_dim=0"),
        ({"num_heads": 5}, "num_heads=5, dim=12"),
        ({"dropout": 1}, "got dropout=1"),
        ({"drop_path": -1}, "got drop_path=-1"),
        ({"attention": "flashy"}, "unknown attention 'flashy'; known: additive, .*multi_head"),
        ({"norm": "group"}, "unknown norm 'group'; known: batch, layer, rms"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformerBlock(**{"dim": D, "num_heads": H, "mlp_dim": F} | arguments)


def test_wrong_widths_and_needless_contexts_are_named(draw):
    with pytest.raises(ValueError, match="x must be dim=12 wide; got shape"):
        TransformerBlock(12, 3, 8)(draw(B, T, 8))
    with pytest.raises(ValueError, match="precompute needs cross-attention"):
        TransformerBlock(12, 3, 8).precompute(draw(B, T, 12))
