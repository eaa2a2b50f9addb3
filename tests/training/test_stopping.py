import os
import signal
import threading

import keras
import numpy as np
import pytest

from tfx_transformer.training.stopping import Stopped, StopSignals


def fit(stop, at=4, batches=20):
    """Batches that were done, of which one sends a signal."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    done = []

    class Send(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            done.append(batch)
            if batch == at:
                os.kill(os.getpid(), signal.SIGTERM)

    x = np.ones((batches, 1))
    model.fit(x, x, batch_size=1, verbose=0, shuffle=False, callbacks=[Send(), stop])
    return len(done)


def test_training_ends_after_the_current_step(capsys):
    with StopSignals() as stop, stop.deferred():
        assert not stop.is_agreed() and fit(stop) == 5 and stop.is_agreed()
    assert stop.number == signal.SIGTERM and "stopping" in capsys.readouterr().err


class TwoWorkers:
    """A second worker that got a signal."""

    count = 2

    def gather_json(self, value):
        return [value, int(signal.SIGINT)]


def test_a_signal_to_any_worker_stops_all_after_a_step_on_which_they_agree():
    with StopSignals(TwoWorkers()) as stop, stop.deferred():
        assert fit(stop, batches=7) == 7  # one worker does not end alone
        assert stop.is_requested()
    with StopSignals(TwoWorkers()) as stop:
        assert not stop.is_requested() and stop.is_agreed() and stop.number == signal.SIGTERM


def test_the_second_signal_and_one_outside_of_training_stop_at_once():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        with pytest.raises(Stopped) as stopped:
            os.kill(os.getpid(), signal.SIGINT)
        assert stopped.value.exit_code == 130
        with stop.deferred():
            os.kill(os.getpid(), signal.SIGTERM)
            with pytest.raises(Stopped) as stopped:
                os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread_signals_are_left_alone():
    before, found = signal.getsignal(signal.SIGINT), []

    def enter():
        with StopSignals():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]
