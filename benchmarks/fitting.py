"""A training step as `fit` does it, for take_turns."""

import time

import keras


class Clock(keras.callbacks.Callback):
    """When each batch ended."""

    def on_train_begin(self, logs=None):
        self.times = []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())


def fit_case(model, data, optimizer, loss, jit_compile=False):
    """Three steps of `fit`; the time of one, from batch end to batch end."""
    model.compile(optimizer, loss, jit_compile=jit_compile)
    clock = Clock()

    def turn():
        model.fit(data.repeat(3), verbose=0, shuffle=False, callbacks=[clock])
        return (clock.times[-1] - clock.times[0]) / 2

    return turn


def loop_case(step):
    """The same of a bare loop: three steps, of which the first does not count."""

    def turn():
        step()
        start = time.perf_counter()
        step()
        step()
        return (time.perf_counter() - start) / 2

    return turn
