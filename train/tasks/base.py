"""The interface of a task: what training, evaluation, export, plots and commands ask of it."""

import abc
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import tensorflow as tf

from tfx_transformer.decoding import DECODERS
from tfx_transformer.files import write_file
from tfx_transformer.models import create_model, new_model
from tfx_transformer.train.options import decoder_spec
from tfx_transformer.train.recipe import Recipe
from tfx_transformer.training.callbacks import MetricsLog
from tfx_transformer.training.losses import TokenCrossentropy
from tfx_transformer.training.workers import Workers

SPLITS = ("train", "validation", "test")
MIN_STEPS = 1000  # of a planned run, if there is time


class Task(abc.ABC):
    """A task with one recipe. Subclasses define everything that differs between tasks.

    In training the methods are called in this order: `check`, `load_data`, `prepare`, `make_model`,
    `evaluator`, `batches`. For a trained run: `restore`, then `pipeline`, `test` or `plot`.

    Attributes:
        noun: what a trained model is called in messages.
        kind: the kind of pipeline that a trained model becomes, a name in PIPELINES.
        metric: the score that decides which weights are best; higher is better.
        unit: what the training speed counts.
        data: training batches.
        units_per_batch: mean number of units in a batch.
        useful_epochs: how often a planned run sees the data at least and at most.
        batches_follow_model: whether the batches depend on the model's options.
        sized_model: the model that `sizes` proposes, if any.
        workers: that share the evaluations; this process alone by default.
        cache: folder for data that is read faster the next time; None stores nothing.
    """

    noun: ClassVar[str]
    kind: ClassVar[str] = ""
    metric: ClassVar[str]
    unit: ClassVar[str]
    data: Any
    units_per_batch: float
    cache: Path | None = None
    useful_epochs: ClassVar[tuple[int, int]] = (6, 60)
    batches_follow_model: ClassVar[bool] = False
    sized_model: ClassVar[str] = ""

    def __init__(self, recipe: Recipe):
        self.recipe: Any = recipe
        self.workers = Workers()

    @property
    def loss(self) -> Any:
        """A Keras loss that sums; see `train/run.py`."""
        return TokenCrossentropy(self.recipe.label_smoothing, reduction="sum")

    def check(self) -> None:
        """Raises if an option of the model or the decoder is wrong; reads no data."""
        own = self.recipe.model
        weights = getattr(self.recipe, "weights", "")  # which may give the sizes
        if not own.is_sized and not weights and own.name != self.sized_model:
            raise ValueError(f"--model.variant is needed for {own.name}; see tfx-transformer list")
        if own.is_sized and not weights:
            try:
                new_model(own.name, own.variant, **own.options | self.example_options())
            except ValueError as error:
                raise ValueError(f"--model: {error}") from None
        if hasattr(self.recipe, "decoding"):
            DECODERS.make(decoder_spec(self.recipe.decoding))

    def example_options(self) -> dict[str, Any]:
        """Examples of the model options that depend on the data."""
        return self.recipe.set_by_task

    @abc.abstractmethod
    def load_data(self) -> None:
        """Reads the data, before anything is written."""

    @abc.abstractmethod
    def prepare(self, folder: Path) -> None:
        """Makes tokenizers and batches; writes to the run folder what `restore` reads."""

    @abc.abstractmethod
    def make_model(self) -> Any:
        """The built model, with its initial or pretrained weights."""

    def create_model(self, defaults=(), **options) -> Any:
        """The recipe's model: its options win over the defaults, and these options over it."""
        own = self.recipe.model
        return create_model(own.name, own.variant, **dict(defaults) | own.options | options)

    def adapt(self, model, records: list[dict[str, Any]]) -> None:  # noqa: B027
        """May change the model before each interval of training, by the metrics so far."""

    @abc.abstractmethod
    def evaluator(self, model) -> "Evaluator":
        """What scores the model during training."""

    def batches(self, done: int) -> tf.data.Dataset:
        """The training batches from number `done` on."""
        return self.data.stream(*divmod(done, self.data.steps_per_epoch))

    def sizes(self) -> list[Any]:
        """Recipes for the data, from small to large models; the recipe itself if it has sizes."""
        return [self.recipe]

    def useful_steps(self) -> tuple[int, int]:
        """How many training steps are enough to try a larger model, and at most useful."""
        enough, most = (epochs * self.data.steps_per_epoch for epochs in self.useful_epochs)
        return max(enough, MIN_STEPS), max(most, 2 * MIN_STEPS)

    def evaluation_seconds(self, model) -> tuple[float, float]:
        """Seconds of an evaluation during training and of the final test."""
        evaluator = self.evaluator(model)
        evaluator.evaluate()  # traces
        _, seconds = timed(evaluator.evaluate)
        return seconds, self.test_ratio * seconds

    @property
    def test_ratio(self) -> float:
        """The time of the final test, about, in evaluations during training."""
        return 1.0

    def describe_plan(self) -> str:
        """The data and the model of a planned run, in one line."""
        own = self.recipe.model
        sizes = {k: v for k, v in own.options.items() if k in ("dim", "depth", "image_size")}
        shown = ", ".join(f"{name} {value}" for name, value in sizes.items())
        return f"{self.recipe.data} → {own.name} {own.variant or ''} {shown}".rstrip()

    @abc.abstractmethod
    def restore(self, folder: Path) -> None:
        """Reads the tokenizers or class names of a run folder."""

    def pipeline(self, model, **options) -> Any:
        """The trained model with its pre- and post-processing; options as in PipelineOptions."""
        raise ValueError(f"a {self.noun} cannot be used by itself; got {self.recipe.data}")

    @classmethod
    def from_checkpoint(cls, folder: Path, **options) -> Any:
        """A pipeline from a checkpoint of another library; None if the folder holds none."""
        return None

    @abc.abstractmethod
    def test(self, run, data: Sequence[str], **options) -> dict[str, Any]:
        """Scores on the test set, or on other data; options as in PipelineOptions."""

    def plot(self, run, what: str, to=None, layer=-1, word=None, format="png") -> list[Path]:
        """The learning curves of the run, and the plots of the task's plots.py for an input.

        The arguments are those of the command `plot`.
        """
        from tfx_transformer.visualization.curves import plot_curves

        def path(name):
            return Path(to or run.folder / "pictures") / f"{name}.{format}"

        plots = importlib.import_module(f"{type(self).__module__.rpartition('.')[0]}.plots")
        paths = plots.plot(run, what, path, layer, word)
        records = MetricsLog(run.folder / "metrics.jsonl").read()
        title = f"Learning curves of a {self.noun} ({type(run.model).__name__})"
        return [plot_curves(records, path("curves"), title), *paths]

    def compare(self, runs, to) -> tuple[str, Path]:
        """A table of several runs in Markdown, and the path of a picture."""
        raise ValueError(f"a {self.noun} cannot be compared with others yet")


@dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation during training."""

    scores: dict[str, float]
    summary: str  # for one line of output
    samples: list[str]  # for a file in the run folder


class Evaluator(abc.ABC):
    """Scores a model during training."""

    suffix = ".txt"  # of the files with samples
    shown = 3  # number of samples to print

    @abc.abstractmethod
    def evaluate(self, whole: bool = False) -> Evaluation:
        """Scores on the first part of the validation set, or on the whole of it."""

    def report(self, result: Evaluation, step: int, folder: Path) -> None:
        """Prints a line and some samples, and writes all samples to a file in the folder."""
        write_file(folder / f"step_{step:08d}{self.suffix}", "\n".join(result.samples))
        print(f"step {step:,}: {result.summary}", *result.samples[: self.shown], sep="\n")


def timed(function: Callable) -> tuple[Any, float]:
    """The result of a function without arguments, and its seconds."""
    start = time.perf_counter()
    return function(), time.perf_counter() - start


def refuse(noun: str, options: dict[str, Any]) -> None:
    """Raises if there are options that a kind of model does not have."""
    for name, value in options.items():
        raise ValueError(f"a {noun} has no option {name}; got {name}={value!r}")


def check_one_source(noun: str, data: Sequence[str]) -> None:
    if len(data) > 1:
        raise ValueError(f"data of a {noun} must be one source; got {' '.join(data)}")


def layer_index(layer: int, count: int, what: str) -> int:
    """The index of a layer that is counted from 1, or from the last, which is -1."""
    if not 1 <= abs(layer) <= count:
        last = f" to {count}" if count > 1 else ""
        raise ValueError(f"layer must be 1{last}, or -1 for the last {what}; got layer={layer}")
    return layer - 1 if layer > 0 else count + layer
