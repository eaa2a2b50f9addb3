import time

import keras
import pytest
import tensorflow as tf

from tfx_transformer.training.input_wait import InputWait


def fit(data_seconds, step_seconds):
    """The fraction of waiting with data and updates of these durations."""

    def loss(targets, outputs):
        with tf.control_dependencies([tf.py_function(lambda: time.sleep(step_seconds), [], [])]):
            return keras.losses.mean_squared_error(targets, outputs)

    def element(i):
        time.sleep(data_seconds)
        return float(i)

    data = tf.data.Dataset.range(12).map(lambda i: tf.py_function(element, [i], tf.float32))
    data = data.map(lambda x: (tf.reshape(x, [1, 1]), tf.reshape(x, [1, 1])))
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", loss, jit_compile=False)
    wait = InputWait()
    model.fit(wait.watch(data), verbose=0, shuffle=False, callbacks=[wait])
    return wait.fraction()


def test_slow_data_is_distinguished_from_slow_updates():
    assert fit(data_seconds=0.1, step_seconds=0.0) > 0.5
    assert fit(data_seconds=0.0, step_seconds=0.1) < 0.3


def test_without_an_update_the_fraction_is_zero():
    assert InputWait().fraction() == pytest.approx(0)
