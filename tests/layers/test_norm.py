"""Norms against their formulas, position by position or feature by feature."""

import keras
import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.norm import (
    NORM,
    BatchNorm,
    LayerNorm,
    RMSNorm,
    layer_norm,
    layer_norm_for_training,
)

B, T, D = 3, 5, 7
EPSILON = 0.1  # large, so that a misplaced epsilon shows
LENGTHS = [5, 2, 3]
REAL = np.array([[t < length for t in range(T)] for length in LENGTHS])


def standardize(row, scale, offset):
    mean = sum(row) / len(row)
    variance = sum((x - mean) ** 2 for x in row) / len(row)
    return (row - mean) / np.sqrt(variance + EPSILON) * scale + offset


@pytest.mark.parametrize("training", [True, False])
def test_layer_norm_standardizes_each_position(training, draw, randomize):
    x = 3 * draw(B, T, D) + 2
    layer = randomize(LayerNorm(epsilon=EPSILON), x)
    y = convert_to_numpy(layer(x, training=training))
    scale, offset = convert_to_numpy(layer.scale), convert_to_numpy(layer.offset)
    for b, t in np.ndindex(B, T):
        np.testing.assert_allclose(y[b, t], standardize(x[b, t], scale, offset), atol=1e-5)


@pytest.mark.parametrize("function", [layer_norm, layer_norm_for_training])
def test_layer_norm_has_the_same_gradients_in_training(function, draw, gradients, slopes):
    x, scale, offset, upstream = draw(2, 3, D), draw(D), draw(D), draw(2, 3, D)

    def total(x, scale, offset):
        rows = [standardize(x[cell], scale, offset) @ upstream[cell] for cell in np.ndindex(2, 3)]
        return sum(rows)

    found = gradients(lambda *points: function(*points, EPSILON), upstream, x, scale, offset)
    for gradient, slope in zip(found, slopes(total, x, scale, offset), strict=True):
        np.testing.assert_allclose(gradient, slope, atol=1e-4)


def test_a_step_of_training_moves_the_weights_of_layer_norm(draw, randomize, slopes):
    x, upstream = draw(2, 3, D), draw(2, 3, D)
    layer = randomize(LayerNorm(epsilon=EPSILON), x)
    before = layer.get_weights()
    model = keras.Sequential([layer])
    model.compile(
        keras.optimizers.SGD(1.0), loss=lambda y, output: ops.sum(y * output), jit_compile=False
    )
    model.train_on_batch(x, upstream)

    def total(scale, offset):
        rows = [standardize(x[cell], scale, offset) @ upstream[cell] for cell in np.ndindex(2, 3)]
        return sum(rows)

    for old, new, slope in zip(before, layer.get_weights(), slopes(total, *before), strict=True):
        np.testing.assert_allclose(old - new, slope, atol=1e-4)


def test_rms_norm_divides_each_position_by_its_length(draw, randomize):
    x = 3 * draw(B, T, D) + 2
    layer = randomize(RMSNorm(epsilon=EPSILON), x)
    y = convert_to_numpy(layer(x))
    for b, t in np.ndindex(B, T):
        size = np.sqrt(sum(value**2 for value in x[b, t]) / D + EPSILON)
        expected = x[b, t] / size * convert_to_numpy(layer.scale)
        np.testing.assert_allclose(y[b, t], expected, atol=1e-5)


@pytest.fixture
def batch_norm(draw, randomize):
    layer = randomize(BatchNorm(epsilon=EPSILON, momentum=0.8), draw(B, T, D))
    layer.norm.moving_mean.assign(draw(D))
    layer.norm.moving_variance.assign(1 + draw(D) ** 2)  # must be positive
    return layer


def test_batch_norm_uses_the_real_positions_only(batch_norm, draw):
    x = 3 * draw(B, T, D) + 2
    y = convert_to_numpy(batch_norm(x, token_mask=REAL, training=True))
    gamma, beta = convert_to_numpy(batch_norm.norm.gamma), convert_to_numpy(batch_norm.norm.beta)
    for d in range(D):
        column = x[REAL][:, d]
        expected = standardize(column, gamma[d], beta[d])
        np.testing.assert_allclose(y[REAL][:, d], expected, atol=1e-5)


def test_padding_has_no_influence_on_batch_norm(batch_norm, draw):
    x = draw(B, T, D)
    rubbish = np.where(REAL[..., None], x, 100 * draw(B, T, D))
    before, after = (
        convert_to_numpy(batch_norm(z, token_mask=REAL, training=True)) for z in (x, rubbish)
    )
    np.testing.assert_allclose(before[REAL], after[REAL], atol=1e-5)


def test_batch_norm_propagates_no_mask(batch_norm, draw):
    class Reader(keras.layers.Layer):  # Keras passes the mask attached to x as `x_mask`
        def call(self, x, x_mask=None):
            self.mask = x_mask
            return x

    reader = Reader()
    reader(batch_norm(draw(B, T, D), token_mask=REAL))
    assert reader.mask is None


def test_without_padding_batch_norm_uses_all_positions(batch_norm, draw):
    x = 3 * draw(B, T, D) + 2
    y = convert_to_numpy(batch_norm(x, training=True))
    gamma, beta = convert_to_numpy(batch_norm.norm.gamma), convert_to_numpy(batch_norm.norm.beta)
    for d in range(D):
        expected = standardize(x[:, :, d].ravel(), gamma[d], beta[d])
        np.testing.assert_allclose(y[:, :, d].ravel(), expected, atol=1e-5)


def test_batch_norm_uses_moving_statistics_outside_training(batch_norm, draw):
    x = 3 * draw(B, T, D) + 2
    norm = batch_norm.norm
    mean, variance = convert_to_numpy(norm.moving_mean), convert_to_numpy(norm.moving_variance)
    mean = 0.8 * mean + 0.2 * x[REAL].mean(axis=0)
    variance = 0.8 * variance + 0.2 * x[REAL].var(axis=0)
    batch_norm(x, token_mask=REAL, training=True)
    np.testing.assert_allclose(convert_to_numpy(norm.moving_mean), mean, atol=1e-5)
    np.testing.assert_allclose(convert_to_numpy(norm.moving_variance), variance, atol=1e-4)

    z = draw(B, T, D)  # outside training, examples do not affect each other
    expected = (z - mean) / np.sqrt(variance + EPSILON) * convert_to_numpy(norm.gamma)
    expected += convert_to_numpy(norm.beta)
    for token_mask in (REAL, None):
        y = batch_norm(z, token_mask=token_mask, training=False)
        np.testing.assert_allclose(convert_to_numpy(y), expected, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", sorted(NORM))
def test_large_numbers_in_half_precision_stay_finite(name, training, draw):
    x = np.clip(50_000 * draw(B, T, D), -65_000, 65_000).astype("float16")
    layer = NORM.make(name, dtype="mixed_float16")
    y = layer(ops.convert_to_tensor(x), training=training)
    assert y.dtype == ops.convert_to_tensor(x).dtype
    y = convert_to_numpy(y).astype("float64")
    assert np.isfinite(y).all()
    if training or name != "batch":  # batch norm has no such moving statistics yet
        exact = convert_to_numpy(NORM.make(name)(x.astype("float32"), training=training))
        np.testing.assert_allclose(y, exact, atol=0.01)


def test_bad_numbers_are_named():
    with pytest.raises(ValueError, match="epsilon must be above zero; got epsilon=-1"):
        LayerNorm(epsilon=-1)
    with pytest.raises(ValueError, match="momentum must lie in 0 <= momentum < 1; got momentum=2"):
        BatchNorm(momentum=2)
