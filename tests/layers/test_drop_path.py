"""Stochastic depth: drops whole examples and keeps the expectation."""

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.drop_path import DropPath

MANY, T, D = 4000, 3, 2


def test_whole_examples_are_dropped_and_the_others_scaled(draw):
    x = draw(MANY, T, D)
    y = convert_to_numpy(DropPath(0.3)(x, training=True))
    kept = y.any(axis=(1, 2))
    np.testing.assert_allclose(y[kept], x[kept] / 0.7, rtol=1e-5)
    assert not y[~kept].any()
    assert abs(kept.mean() - 0.7) < 0.03  # 4 deviations


def test_the_expectation_is_kept():
    y = convert_to_numpy(DropPath(0.3)(np.ones((MANY, T), "float32"), training=True))
    assert abs(y.mean() - 1) < 0.045  # 4 deviations


def test_outside_training_nothing_happens(draw):
    x = draw(MANY, T, D)
    for layer, training in ((DropPath(0.3), False), (DropPath(0.3), None), (DropPath(0.0), True)):
        np.testing.assert_array_equal(convert_to_numpy(layer(x, training=training)), x)


def test_the_same_seed_gives_the_same_samples(draw):
    x = draw(50, T, D)

    def two_draws(seed):
        layer = DropPath(0.5, seed=seed)
        return np.stack([convert_to_numpy(layer(x, training=True)) for _ in range(2)])

    first, second = two_draws(seed=3)
    assert (first != second).any()
    np.testing.assert_array_equal([first, second], two_draws(seed=3))
    assert (first != two_draws(seed=4)[0]).any()


def test_whole_images_are_dropped(draw):
    x = draw(40, 2, 3, 5)
    y = convert_to_numpy(DropPath(0.5)(x, training=True))
    kept = y.any(axis=(1, 2, 3))
    assert 0 < kept.sum() < 40
    np.testing.assert_allclose(y[kept], 2 * x[kept], rtol=1e-5)


@pytest.mark.parametrize("rate", [1.0, -0.1])
def test_a_bad_rate_is_named(rate):
    with pytest.raises(ValueError, match=f"rate must lie in 0 <= rate < 1; got rate={rate}"):
        DropPath(rate)
