"""Recipes: an experiment as a frozen value, from which the command line is generated."""

import dataclasses
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from tfx_transformer.checks import (
    check_above_zero,
    check_fraction,
    check_positive,
    check_rate,
    check_whole,
)
from tfx_transformer.files import check_exists, read_json, reading, write_file

# options that may name files or folders
PATHS = ("train", "validation", "test", "source", "images", "captions", "weights")
MADE = ("cache",)  # folders that a run makes
WEIGHTS = ("package", "imagenet")  # instead of a path
RULES = {  # the ranges of options, by their names
    check_above_zero: ("clip_norm", "epsilon", "learning_rate", "minutes"),
    check_fraction: ("crop_ratio", "layer_decay", "rate"),
    check_positive: (
        *("accumulate", "average", "batch_size", "eval_batches", "eval_images", "eval_sentences"),
        *("eval_steps", "max_length", "n_best", "steps", "token_budget", "vocab_size"),
        "steps_per_execution",
    ),
    check_rate: ("beta_2", "ema", "label_smoothing", "noise", "weight_decay"),
    check_whole: ("patience", "seed", "warmup_steps"),
}


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

    @property
    def is_sized(self) -> bool:
        """Whether a variant or all sizes are given; otherwise the task proposes sizes."""
        return self.variant is not None or {"dim", "depth"} <= self.options.keys()

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
    required: ClassVar[str] = "train"  # the option of `data` that must name a source
    set_by_task: ClassVar[dict[str, Any]] = {}  # model options set by the task, with examples

    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    label_smoothing: float = 0.1
    """Probability that is spread evenly over all classes or tokens in the loss."""
    minutes: float | None = None
    """Choose the steps, and the sizes if the model has none, so that the whole run takes this long,
    with its evaluations and the test."""
    steps: int = 10_000
    """Training steps."""
    eval_steps: int = 500
    """Training steps between two evaluations; each evaluation is followed by a checkpoint."""
    patience: int = 0
    """Evaluations without improvement after which training stops; 0 never stops early."""
    average: int = 1
    """Number of last checkpoints to average at the end, if that is better than the best one."""
    precision: Literal["auto", "float32", "mixed_bfloat16", "mixed_float16"] = "auto"
    """Keras dtype policy of training; auto is mixed_bfloat16 where that is faster, and stays the
    same when a run is continued. Evaluations and the trained model are in float32."""
    strategy: Literal["auto", "one", "mirrored", "multiworker", "tpu"] = "auto"
    """Devices: auto uses all GPUs if there are several, otherwise one device; multiworker is for
    several processes, which `tfx-transformer launch` starts."""
    jit_compile: bool = False
    """Compile the training step with XLA."""
    steps_per_execution: int = 1
    """Training steps in one call of TensorFlow, or a divisor of it that fits between evaluations;
    faster where steps take a few milliseconds. A stop waits for the end of the call."""
    seed: int = 0
    """Seed of initial weights, batch order, augmentation and dropout."""

    def check(self) -> None:
        """Raises if an option is out of its range or names a file that does not exist."""
        for name, value in flatten(dataclasses.asdict(self)).items():
            check_option(name, value)
        if not getattr(self.data, self.required):  # type: ignore[attr-defined]
            raise ValueError(f"--data.{self.required} must name a source; see --help")
        model = self.model  # type: ignore[attr-defined]
        if not (self.minutes or model.is_sized or getattr(self, "weights", "")):
            raise ValueError("--model.variant is needed, or --minutes to choose sizes for a time")
        if self.strategy == "multiworker" and self.steps_per_execution > 1:
            raise ValueError("--steps-per-execution must be 1 with --strategy multiworker")
        warmup = self.optimizer.warmup_steps
        if self.optimizer.schedule == "cosine" and not self.minutes and warmup >= self.steps:
            raise ValueError(
                f"--optimizer.warmup-steps must be below --steps; got {warmup} of {self.steps}"
            )


def flatten(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested options by their names on the command line: {"optimizer.ema": 0.9, …}."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        key = f"{prefix}{name}"
        flat |= flatten(value, f"{key}.") if isinstance(value, dict) else {key: value}
    return flat


def check_option(name: str, value: Any) -> None:
    """Raises if an option such as "optimizer.ema" is out of its range; None is no value."""
    last, flag = name.rpartition(".")[2], "--" + name.replace("_", "-")
    for check, names in RULES.items():
        if last in names and value is not None:
            check(**{flag: value})
    for path in (value if isinstance(value, tuple) else (value,)) if last in PATHS else ():
        if path and path not in WEIGHTS and not Path(path).exists():
            for file in path.split(","):  # two files as one string
                check_exists(**{flag: file})


def fill(options: Any, defaults: Any, **values) -> Any:
    """The options with these values; fields that differ from the defaults are set, and stay."""
    unset = {k: v for k, v in values.items() if getattr(options, k) == getattr(defaults, k)}
    return dataclasses.replace(options, **unset)


def absolute_paths(recipe: Recipe) -> Any:
    """The recipe with absolute paths of its files, so that it can be continued from anywhere."""

    def absolute(path):
        return str(Path(path).absolute()) if path and Path(path).exists() else path

    return _map_paths(recipe, absolute)


def file_names(recipe: Recipe) -> Any:
    """The recipe with the names of its files instead of their absolute paths."""
    return _map_paths(recipe, lambda path: Path(path).name if os.path.isabs(path) else path)


def _map_paths(recipe: Any, function) -> Any:
    """A copy in which a function was applied to each path, in the data options too."""

    def apply(value):
        return tuple(map(function, value)) if isinstance(value, tuple) else function(value)

    names = [x.name for x in dataclasses.fields(recipe) if x.name in PATHS + MADE]
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

    if not path.is_file():
        raise ValueError(f"{path.parent} holds no run: there is no recipe.json")
    stored = read_json(path)
    if not isinstance(stored.get("task"), str) or stored["task"] not in TASKS:
        raise ValueError(
            f"{path.parent} was written by an older version, whose runs cannot be read; "
            "train it again in another folder"
        )
    moved = stored.pop("relative_paths", {})

    def find(file):
        if file in moved and not Path(file).exists():
            there = Path(os.path.normpath(path.parent.absolute() / moved[file]))
            return str(there) if there.exists() else file
        return file

    with reading(path):
        return _map_paths(_restore(TASKS[stored.pop("task")], stored), find)


def _restore(kind, stored: dict[str, Any]):
    """The dataclass `kind` from its dict; JSON's lists become tuples."""
    hints = get_type_hints(kind)
    values = {}
    for name, value in stored.items():
        if name not in hints:
            raise ValueError(f"{kind.__name__} has no option {name}")
        is_part = dataclasses.is_dataclass(hints[name])
        values[name] = _restore(hints[name], value) if is_part else _tuples(value)
        if not is_part and not _fits(values[name], hints[name]):
            raise ValueError(f"{name} must be {hints[name]}; got {value!r:.80}")
    return kind(**values)


def _fits(value, hint) -> bool:
    """Whether a value of JSON is of the type of an option."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Literal:
        return value in parts
    if kind is tuple:
        return isinstance(value, tuple) and all(_fits(item, parts[0]) for item in value)
    if parts and kind is not dict:  # a union
        return any(_fits(value, part) for part in parts)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, kind or hint)


def _tuples(value):
    """The value with tuples for its lists."""
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value
