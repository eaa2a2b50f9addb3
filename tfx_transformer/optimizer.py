"""Adam in one kernel for each weight."""

import keras
import tensorflow as tf
from keras import ops


@keras.saving.register_keras_serializable("tfx_transformer")
class FusedAdam(keras.optimizers.Adam):
    """Adam (arXiv:1412.6980), and AdamW (arXiv:1711.05101) where `weight_decay` is above zero.

    The same numbers as `keras.optimizers.Adam`, which spends a dozen operations on each weight:
    this one is traced in half the time and does not read the weights so often.

    Args:
        learning_rate: a number or a schedule.
        rates: by what the learning rate of each weight is multiplied, in the order in which
            `build` gets them; None learns all at the same rate. Weight decay stays the same.
        **options: of `keras.optimizers.Adam`.
    """

    def __init__(self, learning_rate=0.001, rates=None, **options):
        super().__init__(learning_rate, **options)
        if rates is not None and self.amsgrad:
            raise ValueError("rates work without amsgrad only")
        self.rates = rates

    def update_step(self, gradient, variable, learning_rate):
        if self.amsgrad:
            return super().update_step(gradient, variable, learning_rate)
        index, dtype = self._get_variable_index(variable), variable.dtype
        step = ops.cast(self.iterations + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=ops.power(ops.cast(self.beta_1, dtype), step),
            beta2_power=ops.power(ops.cast(self.beta_2, dtype), step),
            lr=ops.cast(learning_rate, dtype) * (self.rates[index] if self.rates else 1.0),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), dtype),
        )

    def finalize_variable_values(self, var_list):
        """Keeps moving averages (`use_ema`) beside the weights.

        Keras puts them in the place of the weights at the end of `fit`; but training may go on.
        """

    def get_config(self):
        return super().get_config() | {"rates": self.rates}
