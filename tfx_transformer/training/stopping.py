"""Stopping a run by Ctrl-C or SIGTERM: after the current step, with a checkpoint."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

import keras


class Stopped(KeyboardInterrupt):
    """A run was stopped by a signal; the message says how to continue it."""

    def __init__(self, number: int, message: str = "stopped"):
        super().__init__(message)
        self.exit_code = 128 + number


class StopSignals(keras.callbacks.Callback):
    """Handles SIGINT and SIGTERM while it is entered (`with`), in the main thread.

    Inside of `deferred()` the first signal only sets `number`, and, as a callback of `fit`, ends
    training after the current step, which is `accumulate` batches; everywhere else, and the second
    time, it raises `Stopped`.
    """

    def __init__(self, accumulate: int = 1):
        super().__init__()
        self.accumulate, self.number, self.is_deferred = accumulate, 0, False

    def __enter__(self) -> "StopSignals":
        self.replaced = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self.replaced[number] = signal.signal(number, self.handle)
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self.replaced.items():
            signal.signal(number, handler)

    def handle(self, number: int, frame=None) -> None:
        if not self.is_deferred or self.number:
            raise Stopped(number)
        self.number = number
        print("\nstopping; once more to stop without a checkpoint", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        self.is_deferred = True
        try:
            yield
        finally:
            self.is_deferred = False

    def on_train_batch_end(self, batch, logs=None):
        if self.number and (batch + 1) % self.accumulate == 0:
            self.model.stop_training = True
