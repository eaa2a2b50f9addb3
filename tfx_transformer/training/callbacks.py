"""Keras callbacks of a training run (progress, stop at NaN), and the log of its metrics."""

import json
import math
import sys
import time
from pathlib import Path

import keras
from tqdm import tqdm

from tfx_transformer.files import write_file

FORMAT = "step {n_fmt}/{total_fmt}{postfix}, {remaining} left"


class Progress(keras.callbacks.Callback):
    """Shows step, loss, speed and time left: a bar on a terminal, one line per `fit` in a log.

    Args:
        total_steps: of the run.
        done: steps done before.
        units_per_batch: target tokens, on average, or images.
        unit: their name.
        accumulate: batches per step.
    """

    def __init__(
        self,
        total_steps: int,
        done: int,
        units_per_batch: float,
        unit: str = "tokens",
        accumulate: int = 1,
    ):
        super().__init__()
        self.total_steps, self.done, self.accumulate = total_steps, done, accumulate
        self.units_per_batch, self.unit = units_per_batch, unit

    def on_epoch_begin(self, epoch, logs=None):
        options = {"bar_format": FORMAT + " {bar:20}", "mininterval": 0.5, "smoothing": 0}
        self.bar = tqdm(total=self.total_steps, initial=self.done, disable=None, **options)
        self.start = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.step = self.done + (batch + 1) // self.accumulate
        self.elapsed = time.perf_counter() - self.start
        speed = self.units_per_batch * (batch + 1) / self.elapsed
        self.postfix = f"loss {logs['loss']:.4f}, {speed:,.0f} {self.unit}/s"
        self.bar.set_postfix_str(self.postfix, refresh=False)
        self.bar.update(self.step - self.bar.n)

    def on_epoch_end(self, epoch, logs=None):
        if self.bar.disable:  # not a terminal
            options = {"postfix": self.postfix, "bar_format": FORMAT, "initial": self.done}
            line = tqdm.format_meter(self.step, self.total_steps, self.elapsed, **options)
            print(line, file=sys.stderr, flush=True)
        self.bar.close()


class StopAtNaN(keras.callbacks.Callback):
    """Raises an error when the loss is NaN or infinite."""

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            update = keras.ops.convert_to_numpy(self.model.optimizer.iterations)
            raise FloatingPointError(
                f"the loss became {logs['loss']} at update {update}; "
                "try a lower learning rate, a longer warm-up or clipping, in another folder"
            )


class MetricsLog:
    """The metrics of a run, one JSON object per line; a repeated step replaces its line.

    Args:
        path: of the file, `metrics.jsonl` in a run folder.
    """

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
