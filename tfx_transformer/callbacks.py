"""What happens beside the updates: a line of progress, a record of numbers, a stop at NaN."""

import json
import math
import sys
import time
from pathlib import Path

import keras


class Progress(keras.callbacks.Callback):
    """One line that tells step, loss, speed and the time left.

    Args:
        total_steps: of the run.
        done: steps done before.
        units_per_batch: target tokens, on average, or images.
        unit: what they are.
        accumulate: batches for one step.
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
        self.total_steps, self.batches = total_steps, done * accumulate
        self.units_per_batch, self.unit, self.accumulate = units_per_batch, unit, accumulate
        self.is_terminal = sys.stderr.isatty()

    def on_epoch_begin(self, epoch, logs=None):
        self.started, self.began_at, self.shown = time.perf_counter(), self.batches, 0.0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        now = time.perf_counter()
        if self.is_terminal and now - self.shown > 0.5:
            self.shown = now
            print("\r" + self.line(logs), end="\033[K", file=sys.stderr, flush=True)

    def on_epoch_end(self, epoch, logs=None):
        print(("\r" if self.is_terminal else "") + self.line(logs), file=sys.stderr, flush=True)

    def line(self, logs) -> str:
        seconds = (time.perf_counter() - self.started) / max(self.batches - self.began_at, 1)
        left = round(seconds * (self.total_steps * self.accumulate - self.batches))
        return (
            f"step {self.batches // self.accumulate:,} of {self.total_steps:,} · "
            f"loss {logs['loss']:.4f} · {self.units_per_batch / seconds:,.0f} {self.unit}/s · "
            f"{left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
        )


class StopAtNaN(keras.callbacks.Callback):
    """Ends the run with a message when the loss is no number any more."""

    def on_train_batch_end(self, batch, logs=None):
        if not math.isfinite(logs["loss"]):
            raise FloatingPointError(
                f"the loss became {logs['loss']} at update {int(self.model.optimizer.iterations)}; "
                "try a lower learning rate, a longer warm-up or clipping. The last checkpoint is "
                "from before."
            )


class Record:
    """Numbers of a run, a JSON object a line; repeating a step after a kill replaces its line.

    Args:
        path: of the file, `metrics.jsonl` in a run folder.
    """

    def __init__(self, path):
        self.path = Path(path)

    def read(self) -> list[dict]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line]

    def add(self, step: int, **numbers) -> None:
        lines = [line for line in self.read() if line["step"] < step]
        lines.append({"step": step} | numbers)
        half = self.path.with_suffix(".half")
        half.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        half.rename(self.path)
