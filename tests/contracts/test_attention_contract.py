"""Contract of every entry of ATTENTION; a new layer is tested here by its registry line."""

import re

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.layers import ATTENTION, MultiHeadAttention
from tfx_transformer.layers.masks import causal_mask, padding_mask

B, T, S, D, H = 2, 5, 7, 12, 3  # all different, so that a swapped axis cannot pass

WITH_POSITION = [name for name in ATTENTION if issubclass(ATTENTION[name], MultiHeadAttention)]


@pytest.fixture(params=sorted(ATTENTION))
def layer(request, randomize):
    layer = ATTENTION.make(request.param, dim=D, num_heads=H)
    layer(draw(B, T, D))
    return randomize(layer)


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def close(a, b, atol=1e-5):
    a, b = ops.convert_to_numpy(a), ops.convert_to_numpy(b)
    np.testing.assert_allclose(a, b, atol=atol)


def test_shapes(layer):
    output, weights, cache = layer.attend(draw(B, T, D), draw(B, S, D))
    assert tuple(output.shape) == (B, T, D)
    assert tuple(weights.shape) == (B, H, T, S)
    assert cache == ()


def test_the_results_depend_on_what_is_asked_for(layer):
    x, cache = draw(B, T, D), layer.empty_cache(B, T)
    assert tuple(layer(x).shape) == (B, T, D)
    mask = causal_mask(T, T)
    output, scores = layer(x, attention_mask=mask, return_attention_scores=True)
    close(layer(x, attention_mask=mask), output)
    output, cache_1 = layer(x, cache=cache)
    again, scores_2, cache_2 = layer(x, cache=cache, return_attention_scores=True)
    close(again, output)
    close(scores_2, scores)
    for part, same in zip(cache_1, cache_2, strict=True):
        close(part, same)


def test_masks_of_two_and_three_axes_are_those_of_keras(layer):
    query, context = draw(B, T, D), draw(B, S, D, seed=1)
    padding = np.array([[1] * 4 + [0] * 3, [1] * 6 + [0]], bool)  # (B, S)
    for mask, whole in (
        (padding, padding[:, None, None]),
        (padding[:1], padding[:1, None, None]),
        (pairs := draw(B, T, S, seed=2) > -0.5, pairs[:, None]),
    ):
        expected = layer.attend(query, context, attention_mask=whole)
        output, scores, _ = layer.attend(query, context, attention_mask=mask)
        close(output, expected[0])
        close(scores, expected[1])


@pytest.mark.parametrize("shape", [(), (S,), (B, T), (T, S), (T, T, S), (B, 2, T, S), (1,) * 5])
def test_a_mask_of_a_wrong_shape_is_an_error(layer, shape):
    message = re.escape(f"(B, H, T, S) = {(B, H, T, S)}; got shape {shape}")
    with pytest.raises(ValueError, match=f"attention_mask must have shape .*{message}"):
        layer(draw(B, T, D), draw(B, S, D), attention_mask=np.ones(shape, bool))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_mask_that_is_not_boolean_is_an_error(layer, dtype):
    message = f"attention_mask must be boolean, True = may attend; got dtype {dtype}"
    with pytest.raises(ValueError, match=message):
        layer(draw(B, T, D), draw(B, S, D), attention_mask=np.ones((B, 1, T, S), dtype))


def test_the_weights_of_a_query_are_a_distribution_over_the_keys(layer):
    weights = ops.convert_to_numpy(layer.attend(draw(B, T, D), draw(B, S, D))[1])
    assert weights.min() >= 0
    close(weights.sum(axis=-1), np.ones((B, H, T)))


def test_masked_context_has_no_influence(layer):
    query, context = draw(B, T, D), draw(B, S, D, seed=1)
    mask = padding_mask(np.array([[1] * 4 + [0] * 3, [1] * 6 + [0]]))
    changed = context.copy()
    changed[0, 4:] += 100.0
    changed[1, 6:] -= 50.0
    before, after = (layer.attend(query, z, attention_mask=mask) for z in (context, changed))
    close(before[0], after[0])
    hidden = ops.convert_to_numpy(after[1])
    assert np.all(hidden[0, :, :, 4:] == 0) and np.all(hidden[1, :, :, 6:] == 0)
    visible = context.copy()
    visible[1, 4] += 1.0  # masked in the first example only
    moved = ops.convert_to_numpy(layer.attend(query, visible, attention_mask=mask)[1])
    close(moved[0], before[1][0])


def test_a_query_without_an_allowed_key_gets_zeros(layer):
    mask = np.ones((B, 1, T, S), bool)
    mask[1, :, 2] = False
    output, weights, _ = layer.attend(draw(B, T, D), draw(B, S, D), attention_mask=mask)
    weights, output = ops.convert_to_numpy(weights), ops.convert_to_numpy(output)
    assert np.all(weights[1, :, 2] == 0) and np.isfinite(output).all()
    close(weights[0].sum(axis=-1), np.ones((H, T)))
    empty = layer(draw(B, T, D), np.zeros((B, S, D), "float32"))  # zeros summed, then projected
    assert np.isfinite(ops.convert_to_numpy(empty)).all()


def test_the_past_does_not_see_the_future(layer):
    x = draw(B, T, D)
    changed = x.copy()
    changed[:, 3:] += 1.0
    mask = causal_mask(T, T)
    before, after = (layer(z, attention_mask=mask) for z in (x, changed))
    close(before[:, :3], after[:, :3])
    assert not np.allclose(ops.convert_to_numpy(before)[:, 3:], ops.convert_to_numpy(after)[:, 3:])


CHUNKS = [(1, 1, 1, 1, 1), (2, 2, 1), (3, 2), (1, 4), (5,)]


def check_chunks(layer, sizes, to_index):
    """Self-attention in chunks of these sizes, with a cache, equals all at once."""
    x = draw(B, T, D)
    whole, whole_weights, _ = layer.attend(x, attention_mask=causal_mask(T, T))
    cache, start = layer.empty_cache(batch_size=B, max_length=T + 3), 0  # longer than the sequence
    for size in sizes:
        end = start + size
        output, weights, cache = layer.attend(x[:, start:end], cache=cache, index=to_index(start))
        close(output, whole[:, start:end])
        close(weights[..., :T], whole_weights[:, :, start:end])
        assert np.all(ops.convert_to_numpy(weights)[..., T:] == 0)
        start = end


@pytest.mark.parametrize("to_index", [int, ops.convert_to_tensor], ids=["number", "tensor"])
@pytest.mark.parametrize("sizes", CHUNKS)
def test_any_chunks_equal_all_at_once(layer, sizes, to_index):
    check_chunks(layer, sizes, to_index)


def test_a_growing_cache_gives_the_same(layer):
    x = draw(B, T, D)
    whole, whole_weights, _ = layer.attend(x, attention_mask=causal_mask(T, T))
    cache = layer.empty_cache(B, T, grow=True)
    for start, end in ((0, 2), (2, 3), (3, T)):
        output, weights, cache = layer.attend(x[:, start:end], cache=cache, index=start)
        close(output, whole[:, start:end])
        close(weights, whole_weights[:, :, start:end, :end])
        assert cache.key.shape[2] == cache.value.shape[2] == end


@pytest.mark.parametrize("sizes", CHUNKS)
@pytest.mark.parametrize("position", ["rotary", {"kind": "relative", "max_distance": 2}])
@pytest.mark.parametrize("name", WITH_POSITION)
def test_any_chunks_equal_all_at_once_with_positions(name, position, sizes, randomize):
    layer = ATTENTION.make({"kind": name, "position": position}, dim=D, num_heads=H)
    layer(draw(B, T, D))
    check_chunks(randomize(layer), sizes, int)


def test_a_precomputed_context_gives_the_same(layer):
    query, context = draw(B, T, D), draw(B, S, D, seed=1)
    expected = layer.attend(query, context)
    precomputed = layer.attend(query, layer.precompute(context))
    close(precomputed[0], expected[0])
    close(precomputed[1], expected[1])


def test_permuting_the_context_permutes_the_weights_alone(layer):
    if type(layer) is ATTENTION["local"]:
        pytest.skip("a window depends on the order")
    query, context, order = draw(B, T, D), draw(B, S, D, seed=1), np.random.permutation(S)
    output, weights, _ = layer.attend(query, context)
    permuted_output, permuted_weights, _ = layer.attend(query, context[:, order])
    close(permuted_output, output)
    close(permuted_weights, ops.convert_to_numpy(weights)[..., order])


def test_one_training_step_moves_every_weight(layer):
    inputs = keras.Input((T, D))
    model = keras.Model(inputs, layer(inputs))
    if not model.trainable_weights:
        pytest.skip("has no weights")
    before = [ops.convert_to_numpy(w) for w in model.trainable_weights]
    model.compile(keras.optimizers.SGD(1.0), "mse", jit_compile=False)
    model.train_on_batch(draw(B, T, D), draw(B, T, D, seed=1))
    moved = [
        not np.array_equal(w, ops.convert_to_numpy(v))
        for w, v in zip(before, model.trainable_weights, strict=True)
    ]
    kept = [w.path for w, m in zip(model.trainable_weights, moved, strict=True) if not m]
    assert kept == []


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16", "float16"])
@pytest.mark.parametrize("name", sorted(ATTENTION))
def test_half_precision_stays_finite(name, dtype):
    layer = ATTENTION.make(name, dim=D, num_heads=H, dtype=dtype)
    x = 20 * draw(B, T, D)
    output, weights, _ = layer.attend(x, attention_mask=causal_mask(T, T))
    assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
    for tensor in (output, weights):
        assert np.isfinite(ops.convert_to_numpy(ops.cast(tensor, "float32"))).all()
    close(ops.sum(ops.cast(weights, "float32"), axis=-1), np.ones((B, H, T)), atol=1e-3)


def test_bad_sizes_are_named_at_construction(layer):
    with pytest.raises(ValueError, match="num_heads must divide dim; got num_heads=5, dim=12"):
        type(layer)(dim=12, num_heads=5)
    with pytest.raises(ValueError, match="num_heads must be a whole number above zero.*=0"):
        type(layer)(dim=12, num_heads=0)
    with pytest.raises(ValueError, match="dropout must lie in 0 <= dropout < 1; got dropout=1.5"):
        type(layer)(dim=12, num_heads=3, dropout=1.5)


def test_an_unknown_name_lists_the_known():
    known = ", ".join(sorted(ATTENTION))
    with pytest.raises(ValueError, match=f"unknown attention 'flashy'; known: {known}"):
        ATTENTION.make("flashy", dim=D, num_heads=H)
