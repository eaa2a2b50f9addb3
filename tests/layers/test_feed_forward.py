"""The position-wise network against its formulas, with the error function of `math`."""

import math

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.feed_forward import ACTIVATION, FeedForward, gelu_for_training

B, T, D, F = 2, 5, 6, 8


def below(x):
    """Φ(x), the cumulative distribution function of the normal distribution."""
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


FORMULAS = {
    "gelu": lambda x: x * below(x),
    "gelu_tanh": lambda x: (
        0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "relu": lambda x: max(x, 0.0),
    "swish": lambda x: x * sigmoid(x),
}


def dense(layer, x):
    return x @ convert_to_numpy(layer.kernel) + convert_to_numpy(layer.bias)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("activation", sorted(FORMULAS))
def test_an_activation_between_two_dense_layers(activation, training, draw, randomize):
    x = draw(B, T, D)
    layer = randomize(FeedForward(F, activation), x)
    y = convert_to_numpy(layer(x, training=training))
    assert y.shape == x.shape
    for b, t in np.ndindex(B, T):
        hidden = [FORMULAS[activation](unit) for unit in dense(layer.up, x[b, t])]
        assert len(hidden) == F
        np.testing.assert_allclose(y[b, t], dense(layer.down, np.array(hidden)), atol=1e-5)


def test_swiglu_lets_one_half_gate_the_other(draw, randomize):
    x = draw(B, T, D)
    layer = randomize(FeedForward(F, "swiglu"), x)
    y = convert_to_numpy(layer(x))
    for b, t in np.ndindex(B, T):
        both = dense(layer.up, x[b, t])
        assert len(both) == 2 * F
        hidden = [both[i] * sigmoid(both[i]) * both[F + i] for i in range(F)]
        np.testing.assert_allclose(y[b, t], dense(layer.down, np.array(hidden)), atol=1e-5)


def test_every_activation_is_tested():
    assert set(FORMULAS) | {"swiglu"} == set(ACTIVATION)


@pytest.mark.parametrize("function", [gelu_for_training, ACTIVATION["gelu"]])
def test_gelu_has_the_same_value_and_slope_in_training(function, draw, gradients):
    x, upstream = 2 * draw(30), draw(30)
    values = [FORMULAS["gelu"](point) for point in x]
    np.testing.assert_allclose(
        convert_to_numpy(function(ops.convert_to_tensor(x))), values, atol=1e-6
    )
    step = 1e-5
    slopes = [
        (FORMULAS["gelu"](point + step) - FORMULAS["gelu"](point - step)) / (2 * step)
        for point in x.astype("float64")
    ]
    (gradient,) = gradients(function, upstream, x)
    np.testing.assert_allclose(gradient, upstream * slopes, atol=1e-5)


def test_dropout_is_only_in_training(draw, randomize):
    x = draw(B, T, D)
    layer = randomize(FeedForward(D, "relu", dropout=0.5), x)
    layer.down.kernel.assign(np.eye(D))  # so that the output is the hidden layer
    layer.down.bias.assign(np.zeros(D))
    hidden = np.maximum(dense(layer.up, x), 0)
    np.testing.assert_allclose(convert_to_numpy(layer(x, training=False)), hidden, atol=1e-5)
    ratio = convert_to_numpy(layer(x, training=True))[hidden > 0] / hidden[hidden > 0]
    assert set(np.unique(np.round(ratio, 4))) == {0.0, 2.0}


def test_images_are_sets_of_positions(draw, randomize):
    x = draw(B, 3, T, D)
    layer = randomize(FeedForward(F), x)
    flat = convert_to_numpy(layer(x.reshape(B, 3 * T, D)))
    np.testing.assert_allclose(convert_to_numpy(layer(x)), flat.reshape(B, 3, T, D), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mlp_dim": 0}, "got mlp_dim=0"),
        ({"mlp_dim": F, "activation": "tanh"}, "unknown activation 'tanh'; known: gelu, .*swish"),
        ({"mlp_dim": F, "dropout": 2}, "got dropout=2"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**arguments)
