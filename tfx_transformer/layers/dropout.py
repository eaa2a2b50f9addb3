"""Dropout with a quarter of the random numbers of Keras's."""

import keras
from keras import ops

from tfx_transformer.backend import dropout_mask


@keras.saving.register_keras_serializable("tfx_transformer")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout` (arXiv:1207.0580), faster in TensorFlow.

    16 random bits decide about an entry, where Keras computes a float32 number.
    """

    def call(self, inputs, training=False):
        is_plain = keras.backend.backend() == "tensorflow" and self.noise_shape is None
        if not (training and 0 < self.rate < 1 and is_plain and len(inputs.shape)):
            return super().call(inputs, training=training)
        seed = self.seed_generator.next()
        return inputs * dropout_mask(ops.shape(inputs), self.rate, seed, inputs.dtype)
