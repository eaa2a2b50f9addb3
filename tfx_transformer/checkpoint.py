"""Checkpoints: everything that a run needs to go on as if it had never stopped.

A file holds every variable of model and optimizer, among them the moving averages and the states of
the random generators (dropout), which Keras's own weight files leave out.
"""

from pathlib import Path

import numpy as np


class Checkpoints:
    """The checkpoints of one run, `step_<number>.npz` in a folder.

    Args:
        folder: where they are.
        keep: how many of the latest stay.
    """

    def __init__(self, folder, keep: int = 5):
        self.folder, self.keep = Path(folder), keep

    def steps(self) -> list[int]:
        """The steps at which there is a checkpoint, in order."""
        return sorted(int(path.stem[5:]) for path in self.folder.glob("step_????????.npz"))

    def path(self, step: int) -> Path:
        return self.folder / f"step_{step:08d}.npz"

    def save(self, step: int, model) -> Path:
        """Writes a checkpoint, whole or not at all, and forgets the oldest."""
        path = write(self.path(step), values(model))
        for old in self.steps()[: -self.keep]:
            self.path(old).unlink()
        return path

    def restore(self, model) -> int:
        """Puts the latest checkpoint into the model and its optimizer → its step, 0 if none."""
        steps = self.steps()
        if steps:
            put(model, self.path(steps[-1]))
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


def values(model) -> dict[str, np.ndarray]:
    """All variables by a name that tells their kind and their place."""
    return {name: np.asarray(variable.numpy()) for name, variable in _variables(model)}


def write(path: Path, arrays: dict[str, np.ndarray]) -> Path:
    """Writes an .npz file; a kill in between leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half.npz")
    np.savez(half, **arrays)  # type: ignore[arg-type]  # an array may have any name
    half.rename(path)
    return path


def put(model, arrays: Path | dict[str, np.ndarray]) -> None:
    """Assigns the stored values of all variables that are stored, and of every weight."""
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
    """(name, variable): weights, states of random generators, and the optimizer's variables.

    Names have no part that Keras counts up from model to model.
    """
    for i, variable in enumerate(model.variables):
        kind = "weight" if any(variable is weight for weight in model.weights) else "state"
        yield f"{kind}/{i}/{variable.name}", variable
    optimizer = getattr(model, "optimizer", None)  # a model that was loaded uncompiled has none
    for i, variable in enumerate(optimizer.variables if optimizer else ()):
        yield f"optimizer/{i}", variable
