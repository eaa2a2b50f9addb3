"""Learning rates over time. A step counts from 1: the first update already has a rate above 0."""

import keras
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.config import Configured
from tfx_transformer.registry import Registry


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Keras's base class, with the config that `Configured` adds to."""

    def get_config(self):
        return {}


class InverseSqrt(Configured, Schedule):
    """Rises to the peak in `warmup_steps`, then falls with 1/√step (arXiv:1706.03762, equation 3).

    The paper's rate, dim^-½ · min(step^-½, step · warmup^-1½), is this with the peak
    (dim · warmup_steps)^-½.

    Args:
        learning_rate: the peak.
        warmup_steps: when it is reached.
        total_steps: not looked at; all schedules take it.
    """

    def __init__(self, learning_rate, warmup_steps, total_steps=None):
        check_positive(warmup_steps=warmup_steps)
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1
        rise, fall = step / self.warmup_steps, ops.sqrt(self.warmup_steps / step)
        return self.learning_rate * ops.minimum(rise, fall)


class Cosine(Configured, Schedule):
    """Rises to the peak in `warmup_steps`, then falls to 0 along a cosine (arXiv:1608.03983).

    Args:
        learning_rate: the peak.
        warmup_steps: when it is reached.
        total_steps: when the rate is 0.
    """

    def __init__(self, learning_rate, warmup_steps, total_steps):
        check_positive(warmup_steps=warmup_steps, total_steps=total_steps)
        if warmup_steps >= total_steps:
            raise ValueError(
                f"warmup must end before training; got {warmup_steps=}, {total_steps=}"
            )
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1
        rise = step / self.warmup_steps
        way = (step - self.warmup_steps) / (self.total_steps - self.warmup_steps)
        fall = 0.5 * (1 + ops.cos(3.141592653589793 * ops.clip(way, 0, 1)))
        return self.learning_rate * ops.where(rise < 1, rise, fall)


class Constant(Configured, Schedule):
    """Rises to `learning_rate` in `warmup_steps` and stays there."""

    def __init__(self, learning_rate, warmup_steps=1, total_steps=None):
        check_positive(warmup_steps=warmup_steps)
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1
        return self.learning_rate * ops.minimum(step / self.warmup_steps, 1.0)


SCHEDULES = Registry(
    "schedule", {"constant": Constant, "cosine": Cosine, "inverse_sqrt": InverseSqrt}
)
