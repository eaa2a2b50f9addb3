"""Keras callbacks of a training run (progress, stop at NaN), and the log of its metrics."""

import json
import math
import sys
import time
from pathlib import Path

import keras
from tqdm import tqdm

from tfx_transformer.files import write_file

BAR = "{n_fmt}/{total_fmt}{postfix} {bar:20}"
LOG_SECONDS = 30.0  # between two lines in a log


class ProgressLine:
    """Shows "step 3/100, 00:42 left": a bar on a terminal, a line every 30 s in a log.

    Args:
        unit: what is counted.
        total: number of units.
        done: those done before.
    """

    def __init__(self, unit: str, total: int, done: int = 0):
        self.unit, self.total, self.logged = unit, total, time.perf_counter()
        options = {"bar_format": f"{unit} {BAR}", "mininterval": 0.5}
        self.bar = tqdm(total=total, initial=done, disable=None, **options)

    def show(self, done: int, text: str) -> None:
        if not self.bar.disable:
            self.bar.set_postfix_str(text, refresh=False)
            self.bar.update(done - self.bar.n)
        elif time.perf_counter() - self.logged > LOG_SECONDS:
            self.log(done, text)

    def log(self, done: int, text: str) -> None:
        self.logged = time.perf_counter()
        print(f"{self.unit} {done:,}/{self.total:,}, {text}", file=sys.stderr, flush=True)

    def close(self, done: int, text: str) -> None:
        if self.bar.disable:  # not a terminal
            self.log(done, text)
        self.bar.close()


def time_left(seconds: float) -> str:
    return f"{tqdm.format_interval(int(seconds))} left"


class Progress(keras.callbacks.Callback):
    """Shows step, loss, speed and time left: a bar on a terminal, a line every 30 s in a log.

    A step has so many units, which are target tokens or images. The time left includes the
    evaluations and the final test, as soon as an evaluation was made; the test is expected to take
    `test_ratio` times as long.
    """

    def __init__(
        self,
        total_steps: int,
        step: int,
        units_per_step: float,
        unit: str = "tokens",
        eval_steps: int | None = None,
        test_ratio: float = 1.0,
    ):
        super().__init__()
        self.total_steps, self.step = total_steps, step
        self.units_per_step, self.unit, self.test_ratio = units_per_step, unit, test_ratio
        self.eval_steps, self.eval_seconds = eval_steps or total_steps, 0.0

    def on_epoch_begin(self, epoch, logs=None):
        self.first, self.start = self.step, time.perf_counter()
        self.line = ProgressLine("step", self.total_steps, self.first)

    def on_train_batch_end(self, batch, logs=None):
        self.step, now = self.first + batch + 1, time.perf_counter()
        self.steps_per_second, self.loss = (batch + 1) / (now - self.start), logs["loss"]
        self.line.show(self.step, self.describe())

    def on_epoch_end(self, epoch, logs=None):
        self.line.close(self.step, self.describe())

    def describe(self) -> str:
        """Loss, speed and time left."""
        speed = self.units_per_step * self.steps_per_second
        left = time_left(self.seconds_left())
        return f"loss {self.loss:.4f}, {speed:,.0f} {self.unit}/s, {left}"

    def seconds_left(self) -> float:
        """Of the whole run, with the evaluations and the final test."""
        steps = self.total_steps - self.step
        evaluations = math.ceil(steps / self.eval_steps) + self.test_ratio
        training = steps / self.steps_per_second
        return training + evaluations * self.eval_seconds


class StopAtNaN(keras.callbacks.Callback):
    """Raises an error when the loss is NaN or infinite."""

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            update = keras.ops.convert_to_numpy(self.model.optimizer.iterations)
            raise FloatingPointError(
                f"the loss became {logs['loss']} at step {update}; "
                "try a lower learning rate, a longer warm-up or clipping, in another folder"
            )


class MetricsLog:
    """The metrics of a run, one JSON object per line; a repeated step replaces its line."""

    def __init__(self, path):
        self.path = Path(path)

    def read(self) -> list[dict]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line]

    def add(self, step: int, **metrics) -> None:
        lines = [line for line in self.read() if line["step"] < step]
        lines.append({"step": step} | metrics)
        self._write(lines)

    def truncate(self, step: int) -> None:
        """Remove the metrics of later steps, which a resumed run repeats."""
        lines = self.read()
        if lines and lines[-1]["step"] > step:
            self._write([line for line in lines if line["step"] <= step])

    def _write(self, lines: list[dict]) -> None:
        text = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_file(self.path, "".join(text))
