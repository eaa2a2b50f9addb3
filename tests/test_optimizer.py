"""The fused update against Keras's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.optimizer import FusedAdam

OPTIONS = {
    "plain": {},
    "schedule": {"learning_rate": keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)},
    "large epsilon": {"epsilon": 0.1, "beta_1": 0.7, "beta_2": 0.8},
    "decay": {"weight_decay": 0.3},
    "clipped": {"global_clipnorm": 0.5},
    "averaged": {"use_ema": True, "ema_momentum": 0.7},
    "accumulated": {"gradient_accumulation_steps": 2},
    "amsgrad": {"amsgrad": True, "beta_2": 0.5},
}


def steps(kind, sparse=False, **options):
    """The weights and all of the optimizer's variables after some updates."""
    rng = np.random.default_rng(0)
    weights = [keras.Variable(rng.normal(size=shape), dtype="float32") for shape in ((4, 3), (5,))]
    optimizer = kind(**{"learning_rate": 0.1} | options)
    optimizer.build(weights)
    for _ in range(6):
        rows = tf.constant(rng.normal(size=(3, 3)), tf.float32)
        table = tf.IndexedSlices(rows, tf.constant([1, 3, 1]), tf.constant([4, 3]))
        other = tf.constant(rng.normal(size=5), tf.float32)
        optimizer.apply([table if sparse else tf.convert_to_tensor(table), other])
    return [np.array(v) for v in (*weights, *optimizer.variables)]


@pytest.mark.parametrize("options", sorted(OPTIONS))
def test_it_gives_what_keras_gives(options):
    ours, theirs = (steps(k, **OPTIONS[options]) for k in (FusedAdam, keras.optimizers.Adam))
    assert len(ours) == len(theirs) > 6
    for own, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-5)


def test_rows_that_were_looked_up_twice_count_twice():
    for sparse, dense in zip(steps(FusedAdam, sparse=True), steps(FusedAdam), strict=True):
        np.testing.assert_allclose(sparse, dense, atol=1e-5)


def test_it_is_saved_with_its_options():
    config = keras.optimizers.serialize(FusedAdam(0.3, beta_2=0.8))
    assert keras.optimizers.deserialize(config).get_config()["beta_2"] == 0.8


def test_a_weight_learns_at_its_own_rate():
    start = np.array([1.0, -2.0, 3.0], "float32")
    gradient = tf.constant([0.3, -0.1, 0.2])

    def moved(**options):
        weights = [keras.Variable(start) for _ in range(2)]
        optimizer = FusedAdam(0.1, **options)
        optimizer.build(weights)
        optimizer.apply([gradient, gradient], weights)
        return [weight.numpy() - start for weight in weights]

    whole = moved()
    np.testing.assert_array_equal(whole[0], whole[1])
    half, none = moved(rates=[0.5, 0.0])
    np.testing.assert_allclose(half, whole[0] / 2, rtol=1e-5)
    assert not none.any() and whole[0].all()
