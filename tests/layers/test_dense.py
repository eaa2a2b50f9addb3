"""Dense layers: joint kernels, and inputs of any rank."""

import keras
import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.dense import PartsInitializer, apply_dense, apply_to_heads, build_dense

B, T, D, UNITS = 2, 5, 12, 6


class Owner(keras.layers.Layer):
    initializer = "glorot_uniform"


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_each_part_is_initialized_like_a_kernel_of_its_own(parts):
    width = 150
    kernel = convert_to_numpy(PartsInitializer("glorot_uniform", parts)((200, parts * width)))
    limit = np.sqrt(6 / (200 + width))  # Glorot's
    for part in np.split(kernel, parts, axis=1):
        assert 0.99 * limit < np.abs(part).max() <= limit
        np.testing.assert_allclose(part.std(), limit / np.sqrt(3), rtol=0.02)


@pytest.mark.parametrize(
    "initializer",
    ["glorot_uniform", {"class_name": "GlorotUniform", "config": {"seed": 1}}],
    ids=["any seed", "one seed"],
)
def test_parts_are_different(initializer):
    kernel = convert_to_numpy(PartsInitializer(initializer, 3)((40, 90)))
    a, b, c = np.split(kernel, 3, axis=1)
    for one, other in ((a, b), (a, c), (b, c)):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.1


def test_parts_must_divide_the_units():
    with pytest.raises(ValueError, match="parts must divide units; got parts=3, units=10"):
        PartsInitializer("glorot_uniform", 3)((4, 10))


def test_the_initializer_survives_saving():
    initializer = PartsInitializer("he_normal", 2)
    twin = PartsInitializer.from_config(initializer.get_config())
    assert twin.get_config() == initializer.get_config()
    assert type(twin.initializer) is keras.initializers.HeNormal


def test_a_dense_layer_has_the_options_of_its_owner():
    owner = Owner(dtype="mixed_bfloat16")
    owner.initializer = "ones"
    dense = build_dense(owner, "name", D, UNITS)
    assert dense.dtype_policy.name == "mixed_bfloat16"
    assert dense.name == "name"
    np.testing.assert_array_equal(convert_to_numpy(dense.kernel), np.ones((D, UNITS)))
    np.testing.assert_array_equal(convert_to_numpy(dense.bias), np.zeros(UNITS))


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("shape", [(B, T), (B, 3, T)])
def test_all_axes_but_the_last_are_positions(shape, use_bias, draw):
    x = draw(*shape, D)
    dense = build_dense(Owner(), "dense", D, UNITS, use_bias=use_bias)
    for weight in dense.weights:
        weight.assign(draw(*weight.shape))
    result = convert_to_numpy(apply_dense(dense, keras.ops.convert_to_tensor(x)))
    assert result.shape == (*shape, UNITS)
    for index in np.ndindex(*shape):
        expected = x[index] @ convert_to_numpy(dense.kernel)
        if use_bias:
            expected = expected + convert_to_numpy(dense.bias)
        np.testing.assert_allclose(result[index], expected, atol=1e-5)


@pytest.mark.parametrize("length", [1, T])
def test_heads_are_parts_of_the_units(length):
    dense, heads = build_dense(Owner(), "dense", D, UNITS), 3
    x = np.random.default_rng(0).normal(size=(B, length, D)).astype("float32")
    y, result = convert_to_numpy(dense(x)), convert_to_numpy(apply_to_heads(dense, x, heads))
    for h in range(heads):
        np.testing.assert_allclose(result[:, h], y[..., 2 * h : 2 * h + 2], atol=1e-5)
