import math

import keras
import numpy as np
import pytest

from tfx_transformer.training.schedules import SCHEDULES


def rates(schedule, steps):
    return np.array([float(schedule(step)) for step in range(steps)])


def test_inverse_sqrt_is_the_paper_s_formula():
    dim, warmup = 512, 40
    schedule = SCHEDULES.make(
        "inverse_sqrt", learning_rate=(dim * warmup) ** -0.5, warmup_steps=warmup
    )
    expected = [dim**-0.5 * min(s**-0.5, s * warmup**-1.5) for s in range(1, 201)]
    np.testing.assert_allclose(rates(schedule, 200), expected, rtol=1e-5)


def test_cosine_rises_then_falls_to_zero():
    schedule = SCHEDULES.make("cosine", learning_rate=2.0, warmup_steps=10, total_steps=110)
    got = rates(schedule, 120)
    expected = [
        2 * s / 10 if s < 10 else 1 + math.cos(math.pi * min((s - 10) / 100, 1))
        for s in range(1, 121)
    ]
    np.testing.assert_allclose(got, expected, atol=1e-5)
    with pytest.raises(ValueError, match="warmup_steps=10, total_steps=10"):
        SCHEDULES.make("cosine", learning_rate=2.0, warmup_steps=10, total_steps=10)


def test_constant_stays_after_the_warmup():
    schedule = SCHEDULES.make("constant", learning_rate=3.0, warmup_steps=3)
    np.testing.assert_allclose(rates(schedule, 5), [1, 2, 3, 3, 3], rtol=1e-6)


@pytest.mark.parametrize("name", sorted(SCHEDULES))
def test_the_config_restores_the_schedule(name):
    schedule = SCHEDULES.make(name, learning_rate=0.5, warmup_steps=3, total_steps=9)
    config = schedule.get_config()
    assert config == {"learning_rate": 0.5, "warmup_steps": 3, "total_steps": 9}
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    np.testing.assert_allclose(rates(restored, 9), rates(schedule, 9))
