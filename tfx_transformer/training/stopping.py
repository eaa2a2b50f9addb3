"""Stopping a run by Ctrl-C or SIGTERM: after the current step, with a checkpoint."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

import keras

from tfx_transformer.training.workers import Workers


class Stopped(KeyboardInterrupt):
    """A run was stopped by a signal; the message says how to continue it."""

    def __init__(self, number: int, message: str = "stopped"):
        super().__init__(message)
        self.exit_code = 128 + number


class StopSignals(keras.callbacks.Callback):
    """Handles SIGINT and SIGTERM while it is entered (`with`), in the main thread.

    Inside of `deferred()` the first signal only sets `number`, and, as a callback of `fit`, ends
    training after the current step; everywhere else, and the second time, it raises `Stopped`.
    Several workers end after the same step: see `use_updates`.
    """

    def __init__(self, workers: Workers | None = None):
        super().__init__()
        self.workers = workers or Workers()
        self.number, self.is_deferred = 0, False

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
        print(
            "\nstopping; press Ctrl-C again to stop without a checkpoint",
            file=sys.stderr,
            flush=True,
        )

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        self.is_deferred = True
        try:
            yield
        finally:
            self.is_deferred = False

    def is_requested(self) -> bool:
        """Whether this process got a signal."""
        return self.number > 0

    def is_agreed(self) -> bool:
        """Whether any worker got a signal; all must ask."""
        if any(self.workers.gather_json(self.number)):
            self.number = self.number or signal.SIGTERM
        return self.is_requested()

    def on_train_batch_end(self, batch, logs=None):
        if self.is_requested() and self.workers.count == 1:
            self.model.stop_training = True
