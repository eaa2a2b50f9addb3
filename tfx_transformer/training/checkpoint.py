"""Training checkpoints: all variables of model and optimizer, to resume a run exactly.

Moving averages and the states of random generators (dropout), which Keras's weight files omit, are
included.
"""

from pathlib import Path

import numpy as np


class Checkpoints:
    """The checkpoints of one run, `step_<number>.npz` in a folder.

    Args:
        folder: of the files.
        keep: number of latest checkpoints to keep.
    """

    def __init__(self, folder, keep: int = 5):
        self.folder, self.keep = Path(folder), keep

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        return sorted(int(path.stem[5:]) for path in self.folder.glob("step_????????.npz"))

    def path(self, step: int) -> Path:
        return self.folder / f"step_{step:08d}.npz"

    def save(self, step: int, model) -> Path:
        """Write a checkpoint atomically and delete the oldest."""
        path = write_arrays(self.path(step), variable_values(model))
        for old in self.steps()[: -self.keep]:
            self.path(old).unlink()
        return path

    def restore(self, model) -> int:
        """Load the latest checkpoint into the model and its optimizer → its step, 0 if none."""
        steps = self.steps()
        if steps:
            assign_variables(model, self.path(steps[-1]))
        return steps[-1] if steps else 0

    def average(self, count: int) -> dict[str, np.ndarray]:
        """The mean of the weights in the last `count` checkpoints (arXiv:1706.03762, 6.1)."""
        paths = [self.path(step) for step in self.steps()[-count:]]
        if not paths:
            raise ValueError(f"there is no checkpoint in {self.folder}")
        mean: dict[str, np.ndarray] = {}
        for path in paths:
            with np.load(path) as stored:
                for name in stored.files:
                    if name.startswith("weight/"):
                        mean[name] = mean.get(name, 0) + stored[name].astype("float64") / len(paths)
        return mean


def variable_values(model) -> dict[str, np.ndarray]:
    """All variables by name."""
    return {name: np.asarray(variable.numpy()) for name, variable in _variables(model)}


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """Write an .npz file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".half.npz")
    np.savez(temporary, **arrays)  # type: ignore[arg-type]  # an array may have any name
    temporary.rename(path)
    return path


def assign_variables(model, arrays: Path | dict[str, np.ndarray]) -> None:
    """Assign stored values; every weight must be stored, other variables may be missing."""
    if isinstance(arrays, Path):
        with np.load(arrays) as stored:
            arrays = {name: stored[name] for name in stored.files}
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
