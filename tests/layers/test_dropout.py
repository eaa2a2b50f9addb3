"""Dropout: its share, its scale, its gradient and its seeds."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.layers.dropout import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.93])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_share_of_the_entries_is_zero_and_the_mean_stays(rate, dtype):
    ones = ops.ones((300, 7, 51), dtype)
    y = ops.convert_to_numpy(ops.cast(Dropout(rate, seed=1)(ones, training=True), "float32"))
    deviation = np.sqrt(rate * (1 - rate) / y.size)
    assert np.mean(y == 0) == pytest.approx(rate, abs=4 * deviation)
    np.testing.assert_allclose(y[y > 0], 1 / (1 - rate), rtol=2e-4 if dtype == "float32" else 1e-2)
    dropped = (y == 0) - rate
    for axis in range(3):  # neighbors are independent
        first, second = (np.delete(dropped, end, axis) for end in (0, -1))
        assert abs(np.mean(first * second)) < 4 * deviation


def test_each_call_drops_others_and_a_seed_gives_them_again():
    ones = ops.ones((8, 64))
    layer, again = Dropout(0.5, seed=3), Dropout(0.5, seed=3)
    calls = [ops.convert_to_numpy(layer(ones, training=True)) for _ in range(3)]
    assert not np.array_equal(calls[0], calls[1]) and not np.array_equal(calls[1], calls[2])
    for call in calls:
        np.testing.assert_array_equal(again(ones, training=True), call)
    state = layer.seed_generator.state.numpy()
    assert state.tolist() == again.seed_generator.state.numpy().tolist()


def test_without_training_or_rate_nothing_changes():
    x = np.random.default_rng(0).normal(size=(3, 5)).astype("float32")
    for layer, training in ((Dropout(0.5), False), (Dropout(0.0), True)):
        np.testing.assert_array_equal(layer(x, training=training), x)
    assert not np.any(Dropout(1.0)(x, training=True))


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="by TensorFlow's tape")
def test_the_gradient_is_that_of_the_entries_that_stay():
    import tensorflow as tf

    x = tf.Variable(np.random.default_rng(0).normal(size=(4, 6)).astype("float32"))
    with tf.GradientTape() as tape:
        y = Dropout(0.4)(x, training=True)
        total = tf.reduce_sum(y**2)
    kept = y.numpy() != 0
    assert 0 < kept.sum() < kept.size
    expected = np.where(kept, 2 * x.numpy() / 0.6**2, 0)
    np.testing.assert_allclose(tape.gradient(total, x), expected, rtol=1e-3)


def test_another_shape_of_the_noise_is_keras_s():
    x = ops.ones((2, 9, 4))
    y = ops.convert_to_numpy(Dropout(0.5, noise_shape=(None, 1, None), seed=0)(x, training=True))
    np.testing.assert_array_equal(y, np.broadcast_to(y[:, :1], y.shape))
