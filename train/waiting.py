"""How long training waits for its data."""

import time

import keras
import tensorflow as tf

from tfx_transformer.graph import as_it_is


class Wait(keras.callbacks.Callback):
    """Measures the share of an update's time in which its batch was not ready yet.

    Watch the data set and pass this as a callback to `fit`. On several devices TensorFlow fetches
    ahead on its own, and the share is too low.
    """

    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self) -> None:
        self.asked: list[float] = []  # when each update began, by asking for its batch
        self.ready: list[float] = []  # when it was handed over
        self.done: list[float] = []  # when the update was done

    def watch(self, data: tf.data.Dataset) -> tf.data.Dataset:
        """The data, with a clock behind its last buffer."""
        self.reset()

        def note():
            self.ready.append(time.perf_counter())
            return True

        def clock(*batch):
            with tf.control_dependencies([tf.py_function(note, [], tf.bool)]):
                return tf.nest.map_structure(tf.identity, batch)

        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # no buffer behind the clock
        return data.prefetch(2).map(as_it_is(clock)).with_options(options)

    def on_train_batch_begin(self, batch, logs=None):
        self.asked.append(time.perf_counter())

    def on_train_batch_end(self, batch, logs=None):
        self.done.append(time.perf_counter())

    def share(self) -> float:
        """Of the time of all updates but the first, which is traced."""
        times = list(zip(self.asked, self.ready, self.done, strict=False))[1:]
        waited = sum(max(ready - asked, 0.0) for asked, ready, _ in times)
        return waited / sum(done - asked for asked, _, done in times) if times else 0.0
