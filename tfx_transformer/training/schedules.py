"""Learning rate schedules with warm-up. Steps count from 1: the first update has a rate above 0."""

import keras
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.registry import Registry


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """Base class: the peak learning rate times `factor(step)`.

    Args:
        learning_rate: the peak.
        warmup_steps: steps until the peak; the rate rises linearly.
        total_steps: of the training run; only some schedules use it.
    """

    def __init__(self, learning_rate, warmup_steps=1, total_steps=None):
        check_positive(warmup_steps=warmup_steps)
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps
        self.total_steps = total_steps

    def __call__(self, step):
        return self.learning_rate * self.factor(ops.cast(step, "float32") + 1)

    def get_config(self):
        names = ("learning_rate", "warmup_steps", "total_steps")
        return {name: getattr(self, name) for name in names}


@keras.saving.register_keras_serializable("tfx_transformer")
class Constant(Schedule):
    """Constant after the warm-up."""

    def factor(self, step):
        return ops.minimum(step / self.warmup_steps, 1.0)


@keras.saving.register_keras_serializable("tfx_transformer")
class Cosine(Schedule):
    """Falls to 0 at `total_steps` along a cosine (arXiv:1608.03983)."""

    def __init__(self, learning_rate, warmup_steps, total_steps):
        super().__init__(learning_rate, warmup_steps, total_steps)
        check_positive(total_steps=total_steps)
        if warmup_steps >= total_steps:
            raise ValueError(
                f"warmup_steps must be less than total_steps; got {warmup_steps=}, {total_steps=}"
            )
        self.factor = keras.optimizers.schedules.CosineDecay(
            0.0, total_steps - warmup_steps, warmup_target=1.0, warmup_steps=warmup_steps
        )


@keras.saving.register_keras_serializable("tfx_transformer")
class InverseSqrt(Schedule):
    """Falls with 1/√step after the warm-up (arXiv:1706.03762, equation 3).

    The paper's rate, dim^-½ · min(step^-½, step · warmup^-1½), is this with the peak
    (dim · warmup_steps)^-½.
    """

    def factor(self, step):
        return ops.minimum(step / self.warmup_steps, ops.sqrt(self.warmup_steps / step))


SCHEDULES = Registry(
    "schedule", {"constant": Constant, "cosine": Cosine, "inverse_sqrt": InverseSqrt}
)
