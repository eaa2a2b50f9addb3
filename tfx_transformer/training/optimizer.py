"""Adam with one fused kernel per weight, and loss scaling, on any number of replicas."""

import keras
import tensorflow as tf
from keras import ops

from tfx_transformer.runtime import mean_over_replicas


@keras.saving.register_keras_serializable("tfx_transformer")
class FusedAdam(keras.optimizers.Adam):
    """Adam (arXiv:1412.6980), and AdamW (arXiv:1711.05101) where `weight_decay` is above zero.

    The same results as `keras.optimizers.Adam`, which uses a dozen operations per weight: this one
    is traced in half the time and reads the weights less often.

    Args:
        learning_rate: a number or a schedule.
        rate_multipliers: factors of the learning rate, one per weight in the order of `build`;
            None means 1. Weight decay is not multiplied.
        **options: of `keras.optimizers.Adam`.
    """

    def __init__(self, learning_rate=0.001, rate_multipliers=None, **options):
        super().__init__(learning_rate, **options)
        if rate_multipliers is not None and self.amsgrad:
            raise ValueError("rate_multipliers must be None with amsgrad")
        self.rate_multipliers = rate_multipliers

    def update_step(self, gradient, variable, learning_rate):
        if self.amsgrad:
            return super().update_step(gradient, variable, learning_rate)
        index, dtype = self._get_variable_index(variable), variable.dtype
        multiplier = self.rate_multipliers[index] if self.rate_multipliers else 1.0
        step = ops.cast(self.iterations + 1, dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=ops.power(ops.cast(self.beta_1, dtype), step),
            beta2_power=ops.power(ops.cast(self.beta_2, dtype), step),
            lr=ops.cast(learning_rate, dtype) * multiplier,
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=tf.cast(tf.convert_to_tensor(gradient), dtype),
        )

    def _clip_gradients(self, gradients):
        """Of all replicas together; Keras would clip the part of each replica before their sum.

        Sparse gradients become dense, which sums repeated rows: the norm is that of the sums.
        """
        pairs = [(tf.convert_to_tensor(gradient), None) for gradient in gradients]
        gradients = [gradient for gradient, _ in super()._all_reduce_sum_gradients(pairs)]
        return super()._clip_gradients(gradients)

    def _all_reduce_sum_gradients(self, pairs):
        return pairs  # the gradients were summed before they were clipped

    def finalize_variable_values(self, var_list):
        """Does nothing: Keras would overwrite the weights with their moving averages (`use_ema`) at
        the end of `fit`, but training may continue."""

    def get_config(self):
        return super().get_config() | {"rate_multipliers": self.rate_multipliers}


@keras.saving.register_keras_serializable("tfx_transformer")
class LossScaling(keras.optimizers.LossScaleOptimizer):
    """Keras's loss scaling for float16; no replica makes an update if one has an overflow.

    Keras checks the gradients of the first replica only, before they are summed.
    """

    def check_finite(self, gradients):
        is_finite = ops.cast(super().check_finite(gradients), "float32")
        return mean_over_replicas(is_finite) == 1
