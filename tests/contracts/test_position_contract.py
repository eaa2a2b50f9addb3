"""Contract of every entry of POSITION."""

import numpy as np
import pytest
from keras import ops

from tfx_transformer.layers import POSITION, MultiHeadAttention

B, T, D, H, S = 2, 9, 12, 3, 9
OPTIONS = {"learned": {"max_length": 20}}
SHAPE = {"tokens": (B, T, D), "heads": (B, H, T, D), "scores": (B, H, T, S)}


@pytest.fixture(params=sorted(POSITION))
def layer(request, randomize):
    layer = POSITION.make(request.param, **OPTIONS.get(request.param, {}))
    layer(draw(layer))
    return randomize(layer)


def draw(layer):
    return np.random.default_rng(0).normal(size=SHAPE[layer.acts_on]).astype("float32")


def apply(layer, x, start, **kwargs):
    return ops.convert_to_numpy(layer(x, start=start, **kwargs))


def test_acts_on_is_known(layer):
    assert layer.acts_on in SHAPE


def test_step_by_step_at_an_offset_equals_all_at_once(layer):
    x = draw(layer)
    grid = {"grid": (3, 3)} if layer.acts_on == "tokens" else {}
    whole = apply(layer, x, 0, **grid)
    for t in range(T):
        step = apply(layer, x[..., t : t + 1, :], t, **grid)
        np.testing.assert_allclose(step[..., 0, :], whole[..., t, :], atol=1e-5)


def test_a_tensor_start_gives_the_same_as_a_number(layer):
    x = draw(layer)[..., :4, :]
    grid = {"grid": (3, 3)} if layer.acts_on == "tokens" else {}
    at_tensor = apply(layer, x, ops.convert_to_tensor(3, dtype="int32"), **grid)
    np.testing.assert_allclose(at_tensor, apply(layer, x, 3, **grid), atol=1e-5)


def test_equal_tokens_get_different_vectors(layer):
    x = np.ones_like(draw(layer))
    y = apply(layer, x, 0)
    assert not np.allclose(y[..., 0, :], y[..., 1, :])


def test_attention_is_a_set_function_until_positions_are_added(layer, randomize):
    order = np.random.default_rng(1).permutation(T)
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype("float32")
    inside = layer.acts_on != "tokens"
    spec = next(name for name in POSITION if POSITION[name] is type(layer)) if inside else None
    attention = MultiHeadAttention(dim=D, num_heads=2, position=spec)
    add_position = (lambda z: z) if inside else layer
    attention(add_position(x))
    randomize(attention)

    def out(z):
        return ops.convert_to_numpy(attention(add_position(z)))

    plain = MultiHeadAttention(dim=D, num_heads=2)
    plain(x)
    permuted = ops.convert_to_numpy(plain(x[:, order]))
    np.testing.assert_allclose(permuted, ops.convert_to_numpy(plain(x))[:, order], atol=1e-5)
    assert np.abs(out(x[:, order]) - out(x)[:, order]).max() > 1e-2


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("name", sorted(POSITION))
def test_half_precision_stays_finite_and_half(name, dtype):
    layer = POSITION.make(name, **OPTIONS.get(name, {}), dtype=dtype)
    y = layer(draw(layer), start=5)
    assert layer.compute_dtype in str(y.dtype)
    assert np.isfinite(ops.convert_to_numpy(ops.cast(y, "float32"))).all()
