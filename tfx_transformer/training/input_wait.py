"""Measures how long training waits for its input data."""

import time

import keras
import tensorflow as tf

from tfx_transformer.runtime import without_autograph


class InputWait(keras.callbacks.Callback):
    """Callback: the fraction of training time spent waiting for input batches.

    Pass `watch(data)` and this callback to `fit`. On several devices TensorFlow prefetches on its
    own, and the fraction is too low. Of several batches in a call only the first one counts.

    Args:
        batches: in a call of the train function.
    """

    def __init__(self, batches: int = 1):
        super().__init__()
        self.batches = batches
        self.reset()

    def reset(self) -> None:
        self.requested: list[float] = []  # when each update requested its batch
        self.ready: list[float] = []  # when the batch was ready
        self.done: list[float] = []  # when the update was done

    def watch(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """The data set, recording when each batch leaves its last buffer."""
        self.reset()

        def record():
            self.ready.append(time.perf_counter())
            return True

        def record_time(*batch):
            with tf.control_dependencies([tf.py_function(record, [], tf.bool)]):
                return tf.nest.map_structure(tf.identity, batch)

        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # no buffer after this
        return data.prefetch(2).map(without_autograph(record_time)).with_options(options)

    def on_train_batch_begin(self, batch, logs=None):
        self.requested.append(time.perf_counter())

    def on_train_batch_end(self, batch, logs=None):
        self.done.append(time.perf_counter())

    def fraction(self) -> float:
        """Waiting time divided by total time, without the first update, which is traced."""
        ready = self.ready[:: self.batches]
        times = list(zip(self.requested, ready, self.done, strict=False))[1:]
        waited = sum(max(ready - requested, 0.0) for requested, ready, _ in times)
        return waited / sum(done - requested for requested, _, done in times) if times else 0.0
