"""Training checkpoints: all variables of model and optimizer, to resume a run exactly.

Moving averages and the states of random generators (dropout), which Keras's weight files omit, are
included. The files are .npz archives, which hold a checksum (CRC-32) of each array.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import keras
import numpy as np

from tfx_transformer.files import read_npz, whole_file


class Checkpoints(keras.callbacks.Callback):
    """The checkpoints of one run in a folder, of which the latest `keep` stay.

    `step_<number>.npz` follow each evaluation; `stopped_<number>.npz` is written between two
    evaluations when a run is stopped, and removed by the next checkpoint; `best.npz` has the best
    score so far. A damaged file is reported and renamed to `<name>.damaged`.

    Inside of `with checkpoints:` a thread writes the files, in order, from a copy of the values,
    while training continues. A save waits for the writes of earlier steps, so that there is one
    copy at most, and the end of the block waits for all. As a callback of `fit` it raises an error
    of a write after the next step.
    """

    def __init__(self, folder, keep: int = 5):
        super().__init__()
        self.folder, self.keep = Path(folder), keep
        self.best = self.folder / "best.npz"
        self.pool: ThreadPoolExecutor | None = None
        self.writes: list[Future] = []  # not finished, or not checked
        self.step = 0  # of these writes
        self.values: dict[str, np.ndarray] = {}

    def __enter__(self) -> "Checkpoints":
        self.pool = ThreadPoolExecutor(1, "checkpoints")
        return self

    def __exit__(self, kind, *_) -> None:
        if self.pool is not None:
            self.pool.shutdown()
        self.pool = None
        if kind is None:
            self.wait()

    def wait(self) -> None:
        """Returns when all files are written; raises the first error."""
        writes, self.writes, self.values = self.writes, [], {}
        for write in writes:
            write.result()

    def on_train_batch_end(self, batch, logs=None):
        if self.writes and all(write.done() for write in self.writes):
            self.wait()

    def steps(self) -> list[int]:
        """The steps that have a checkpoint after an evaluation, ascending."""
        return sorted(map(step_of, self.folder.glob("step_????????.npz")))

    def path(self, step: int) -> Path:
        return self.folder / f"step_{step:08d}.npz"

    def save(self, step: int, model) -> Path:
        """Write a checkpoint and delete the oldest."""

        def delete():
            for old in self.steps()[: -self.keep]:
                self.path(old).unlink()
            for stopped in self.folder.glob("stopped_????????.npz"):
                stopped.unlink()

        return self._write(self.path(step), step, model, then=delete)

    def save_stopped(self, step: int, model) -> Path:
        """Write a checkpoint between two evaluations."""
        return self._write(self.folder / f"stopped_{step:08d}.npz", step, model)

    def save_best(self, step: int, model) -> Path:
        """Write the weights with the best score so far."""
        return self._write(self.best, step, model, {"step": np.array(step)})

    def _write(
        self,
        path: Path,
        step: int,
        model,
        other: dict[str, np.ndarray] | None = None,
        then: Callable[[], None] = lambda: None,
    ) -> Path:
        """Write the present values and `other` arrays, and call `then`, now or in the thread."""
        if step != self.step:
            self.wait()
        self.step, self.values = step, variable_values(model, self.values)
        arrays = self.values | (other or {})

        def write():
            write_arrays(path, arrays)
            then()

        if self.pool is None:
            write()
            self.values = {}
        else:
            self.writes.append(self.pool.submit(write))
        return path

    def restore(self, model) -> int:
        """Load the latest sound checkpoint into model and optimizer → its step, 0 if none."""
        for path in sorted(self.folder.glob("st*_????????.npz"), key=step_of, reverse=True):
            arrays = read_arrays(path)
            if arrays:
                assign_variables(model, arrays)
                return step_of(path)
        return 0

    def restore_best(self, model) -> int:
        """Load the best weights, or the latest if these are missing or damaged → their step."""
        arrays = read_arrays(self.best) if self.best.exists() else {}
        if not arrays:
            return self.restore(model)
        assign_variables(model, arrays)
        return int(arrays["step"])

    def average(self, count: int) -> dict[str, np.ndarray]:
        """The mean of the weights in the last `count` checkpoints (arXiv:1706.03762, 6.1)."""
        last = []
        for step in self.steps()[-count:]:
            arrays = read_arrays(self.path(step)).items()
            last.append({name: array for name, array in arrays if name.startswith("weight/")})
        sound = [weights for weights in last if weights]
        if not sound:
            raise ValueError(f"there is no checkpoint in {self.folder}")
        return {n: np.mean([x[n] for x in sound], axis=0, dtype="float64") for n in sound[0]}


def step_of(path: Path) -> int:
    """The number in the name of a checkpoint."""
    return int(path.stem.rpartition("_")[2])


def variable_values(model, earlier: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Copies of all variables by name; `earlier` copies are used again where they are equal."""
    values = {}
    for name, variable in _variables(model):
        value, old = np.asarray(variable.numpy()), (earlier or {}).get(name)
        values[name] = value if old is None or not np.array_equal(old, value) else old
    return values


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """Write an .npz file, whole or not at all."""
    with whole_file(path) as temporary:
        np.savez(temporary, **arrays)  # type: ignore[arg-type]  # an array may have any name
    return path


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; a damaged file is reported and set aside, and gives none."""
    try:
        return read_npz(path)  # checks each checksum
    except (OSError, ValueError) as error:
        aside = path.with_name(f"{path.name}.damaged")
        path.rename(aside)
        print(f"{error}; it is now {aside.name}", file=sys.stderr)
        return {}


def assign_variables(model, arrays: dict[str, np.ndarray]) -> None:
    """Assign stored values; every weight must be stored, other variables may be missing."""
    for name, variable in _variables(model):
        if name not in arrays:
            if name.startswith("weight/"):
                raise ValueError(f"the checkpoint has no {name}")
            continue
        if arrays[name].shape != tuple(variable.shape):
            raise ValueError(
                f"{name} has shape {tuple(variable.shape)}, the checkpoint {arrays[name].shape}"
            )
        variable.assign(arrays[name].astype(str(variable.dtype)))


def _variables(model):
    """(name, variable) of weights, random generators and optimizer, without Keras's counters."""
    for i, variable in enumerate(model.variables):
        kind = "weight" if any(variable is weight for weight in model.weights) else "state"
        yield f"{kind}/{i}/{variable.name}", variable
    optimizer = getattr(model, "optimizer", None)  # None if not compiled
    for i, variable in enumerate(optimizer.variables if optimizer else ()):
        yield f"optimizer/{i}", variable
