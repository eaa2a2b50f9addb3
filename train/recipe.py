"""Recipes: an experiment as a frozen value, from which the command line is generated."""

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_type_hints

from tfx_transformer.files import write_file

# options that may name files or folders
PATHS = ("train", "validation", "test", "source", "images", "captions", "weights")


@dataclass(frozen=True)
class ModelOptions:
    """A model of the zoo, its variant, and the constructor options that differ from the variant."""

    name: str
    variant: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "options", _tuples(self.options))  # as they are read from JSON

    @classmethod
    def of(cls, name: str, variant: str | None = None, /, **options) -> "ModelOptions":
        """`ModelOptions.of("transformer", "small", dropout=0.3)`."""
        return cls(name, variant, options)

    def replace(self, **options) -> "ModelOptions":
        """The same model with some options changed."""
        return dataclasses.replace(self, options=self.options | options)


@dataclass(frozen=True)
class OptimizerOptions:
    """Adam and its learning rate."""

    learning_rate: float = 1e-3
    """Highest learning rate, reached after the warm-up."""
    schedule: Literal["constant", "cosine", "inverse_sqrt"] = "inverse_sqrt"
    """How the learning rate changes after the warm-up."""
    warmup_steps: int = 400
    """Training steps in which the learning rate rises from 0."""
    beta_2: float = 0.98
    """Adam's decay rate of the second moment."""
    epsilon: float = 1e-9
    """Adam's epsilon."""
    weight_decay: float = 0.0
    """Weight decay of kernels; above 0 the optimizer is AdamW."""
    clip_norm: float | None = None
    """Maximum norm of all gradients together."""
    accumulate: int = 1
    """Number of batches whose tokens make one training step together."""
    layer_decay: float = 1.0
    """Layer-wise learning-rate decay for fine-tuning: each block's rate is the next one's times
    this."""
    ema: float = 0.0
    """Momentum of an exponential moving average of the weights, which is then evaluated and
    exported; 0 keeps none."""


# the usual choice for classifiers, language models and fine-tuning
ADAMW = OptimizerOptions(schedule="cosine", beta_2=0.999, epsilon=1e-8, weight_decay=0.05)


@dataclass(frozen=True)
class Recipe:
    """What the recipes of all tasks have in common."""

    task: ClassVar[str]  # a name in TASKS
    set_by_task: ClassVar[tuple[str, ...]] = ()  # model options that follow from the data

    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    label_smoothing: float = 0.1
    """Probability that is spread evenly over all classes or tokens in the loss."""
    steps: int = 10_000
    """Training steps."""
    eval_steps: int = 500
    """Training steps between two evaluations; each evaluation is followed by a checkpoint."""
    patience: int = 0
    """Evaluations without improvement after which training stops; 0 never stops early."""
    average: int = 1
    """Number of last checkpoints to average at the end, if that is better than the best one."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy."""
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] = "auto"
    """Devices: auto uses all GPUs if there are several, otherwise one device."""
    jit_compile: bool = False
    """Compile the training step with XLA."""
    seed: int = 0
    """Seed of initial weights, batch order, augmentation and dropout."""


def absolute_paths(recipe: Recipe) -> Any:
    """The recipe with absolute paths of its files, so that it can be continued from anywhere."""

    def absolute(path):
        return str(Path(path).absolute()) if path and Path(path).exists() else path

    return _map_paths(recipe, absolute)


def _map_paths(recipe: Any, function) -> Any:
    """A copy in which a function was applied to each path of PATHS, in the data options too."""

    def apply(value):
        return tuple(map(function, value)) if isinstance(value, tuple) else function(value)

    names = [x.name for x in dataclasses.fields(recipe) if x.name in PATHS]
    changed = {name: apply(getattr(recipe, name)) for name in names}
    if hasattr(recipe, "data"):
        changed["data"] = _map_paths(recipe.data, function)
    return dataclasses.replace(recipe, **changed)


def save_recipe(recipe: Recipe, path: Path) -> None:
    """Writes recipe.json; its paths also relative to the folder, in case both are moved."""
    relative: dict[str, str] = {}

    def remember(file):
        if file and os.path.isabs(file):
            relative[file] = os.path.relpath(file, path.parent.absolute())
        return file

    _map_paths(recipe, remember)
    stored = {"task": recipe.task, "relative_paths": relative} | dataclasses.asdict(recipe)
    write_file(path, json.dumps(stored, indent=2) + "\n")


def load_recipe(path: Path) -> Any:
    """The recipe of a run folder; its files are found again if folder and files were moved."""
    from tfx_transformer.train.tasks import TASKS

    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        raise ValueError(f"{path.parent} holds no run: there is no recipe.json") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if not isinstance(stored, dict) or stored.get("task") not in TASKS:
        raise ValueError(
            f"{path.parent} was written by an older version, whose runs cannot be read; "
            "train it again in another folder"
        )
    moved = stored.pop("relative_paths", {})
    try:
        recipe = _restore(TASKS[stored.pop("task")], stored)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not hold the options of a recipe: {error}") from None

    def find(file):
        if file in moved and not Path(file).exists():
            there = Path(os.path.normpath(path.parent.absolute() / moved[file]))
            return str(there) if there.exists() else file
        return file

    return _map_paths(recipe, find)


def _restore(kind, stored: dict[str, Any]):
    """The dataclass `kind` from its dict; JSON's lists become tuples."""
    hints = get_type_hints(kind)
    for name, value in stored.items():
        if dataclasses.is_dataclass(hints[name]):
            stored[name] = _restore(hints[name], value)
        else:
            stored[name] = _tuples(value)
    return kind(**stored)


def _tuples(value):
    """The value with tuples for its lists."""
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
