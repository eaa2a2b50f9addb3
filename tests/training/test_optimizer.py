"""The fused update against Keras's own."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.training.optimizer import FusedAdam

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
def test_the_updates_are_those_of_keras(options):
    ours, theirs = (steps(k, **OPTIONS[options]) for k in (FusedAdam, keras.optimizers.Adam))
    assert len(ours) == len(theirs) > 6
    for our, their in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(our, their, atol=1e-5)


@pytest.mark.parametrize("options", ["plain", "clipped"])
def test_repeated_rows_of_a_sparse_gradient_are_summed(options):
    found = steps(FusedAdam, sparse=True, **OPTIONS[options])
    for sparse, dense in zip(found, steps(FusedAdam, **OPTIONS[options]), strict=True):
        np.testing.assert_allclose(sparse, dense, atol=1e-5)


def test_the_config_has_all_options():
    config = keras.optimizers.serialize(FusedAdam(0.3, beta_2=0.8))
    assert keras.optimizers.deserialize(config).get_config()["beta_2"] == 0.8


def test_each_weight_has_its_own_rate_multiplier():
    start = np.array([1.0, -2.0, 3.0], "float32")
    gradient = tf.constant([0.3, -0.1, 0.2])

    def change(**options):
        weights = [keras.Variable(start) for _ in range(2)]
        optimizer = FusedAdam(0.1, **options)
        optimizer.build(weights)
        optimizer.apply([gradient, gradient], weights)
        return [weight.numpy() - start for weight in weights]

    whole = change()
    np.testing.assert_array_equal(whole[0], whole[1])
    half, none = change(rate_multipliers=[0.5, 0.0])
    np.testing.assert_allclose(half, whole[0] / 2, rtol=1e-5)
    assert not none.any() and whole[0].all()
