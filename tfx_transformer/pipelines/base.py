"""The base of all pipelines: calls on one item or a list, results in plain Python, and export."""

import abc
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from tfx_transformer.checks import check_positive
from tfx_transformer.pipelines.decode import decoder_options

# arguments of a pipeline that are not plain data
PARTS = ("model", "tokenizer", "image_options")


@dataclass(frozen=True)
class GeneratedText:
    """A text that a model generated."""

    text: str
    score: float
    n_best: list[tuple[str, float]]  # texts with their scores, best first
    pieces: list[str]  # subwords of the text, END included
    truncated: bool = field(default=False, kw_only=True)  # whether the input was too long

    @property
    def value(self) -> str:
        """What a call of the pipeline returns."""
        return self.text

    @classmethod
    def unpack(cls, outputs: dict[str, np.ndarray], row: int) -> Any:
        """One row of a batch of outputs, without its padding."""
        return cls(**cls.fields(outputs, row))

    @classmethod
    def fields(cls, outputs: dict[str, np.ndarray], row: int) -> dict[str, Any]:
        scores = outputs["n_best_score"][row].tolist()
        texts = [text.decode() for text in outputs["n_best"][row]]
        return {
            "text": outputs["text"][row].decode(),
            "score": float(outputs["score"][row]),
            "n_best": list(zip(texts, scores, strict=True)),
            "pieces": decode_pieces(outputs["pieces"][row]),
            "truncated": is_truncated(outputs, row),
        }


@dataclass(frozen=True)
class Prediction:
    """The most likely classes of one item; none if the item could not be read."""

    classes: list[tuple[str, float]]  # labels with their probabilities, best first
    truncated: bool = False  # whether a text was too long
    rollout: np.ndarray | None = None  # (R, S), where attention goes; only of "explain"

    @property
    def value(self) -> dict[str, float]:
        """What a call of the pipeline returns: label → probability, best first."""
        return dict(self.classes)

    @classmethod
    def unpack(cls, outputs: dict[str, np.ndarray], row: int) -> "Prediction":
        """One row of a batch of outputs."""
        labels = [label.decode() for label in outputs["labels"][row]]
        scores = outputs["scores"][row].tolist()
        is_readable = outputs["is_readable"][row] if "is_readable" in outputs else True
        classes = list(zip(labels, scores, strict=True)) if is_readable else []
        rollout = outputs["rollout"][row] if "rollout" in outputs else None
        return cls(classes, is_truncated(outputs, row), rollout)


class Predictor:
    """Something that can be called on one item or on a list: a pipeline or a loaded export.

    Attributes:
        kind: what it is, a name in PIPELINES.
        predict: a batch of items (B,) → named tensors with a row for each item.
        result: the class of the results, with `unpack` and `value`.
        columns: if an item is a tuple of several strings, their names; `predict` takes an array
            (B,) of each.
    """

    kind: str
    predict: Callable
    signatures: Any
    result: Any
    columns: tuple[str, ...] = ()

    def __call__(self, inputs, batch_size: int = 64):
        """One item (a string or bytes) gives one result, a list of items gives a list."""
        is_single = isinstance(inputs, tuple if self.columns else str | bytes)
        results = self.results([inputs] if is_single else inputs, batch_size)
        values = [result.value for result in results]
        return values[0] if is_single else values

    def results(
        self,
        items: Iterable[Any],
        batch_size: int = 64,
        progress: str | None = None,
        explain: bool = False,
    ) -> list[Any]:
        """Detailed results, in the order of the items; items of similar length share a batch.

        Args:
            items: strings or bytes, or tuples of them as in `columns`.
            batch_size: items that are computed together.
            progress: label of a progress bar on a terminal; None shows none.
            explain: whether the results have the attention weights of the signature "explain".
        """
        check_positive(batch_size=batch_size)
        predict = self.find_explain() if explain else self.predict
        items = [item if self.columns else (item,) for item in items]
        for item in items:
            if self.columns and not (isinstance(item, tuple) and len(item) == len(self.columns)):
                raise ValueError(f"an item must be ({', '.join(self.columns)}); got {item!r:.80}")
        order = sorted(range(len(items)), key=lambda i: len(items[i][0]))
        done: dict[int, Any] = {}
        with tqdm(total=len(items), desc=progress, disable=None if progress else True) as bar:
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                batch = [[to_bytes(part) for part in items[i]] for i in rows]
                outputs = predict(*np.array(batch, dtype=object).T)
                arrays = {name: value.numpy() for name, value in outputs.items()}
                done |= {i: self.result.unpack(arrays, row) for row, i in enumerate(rows)}
                bar.update(len(rows))
        return [done[i] for i in range(len(items))]

    def find_explain(self) -> Callable:
        """`predict` with attention weights; an error if the model has none."""
        signatures = self.signatures() if callable(self.signatures) else self.signatures
        if "explain" not in signatures:
            raise ValueError(f"explain must be False for this {self.kind}: it has no attention")
        function = signatures["explain"]
        return lambda batch: function(tf.constant(batch))


class Pipeline(Predictor, tf.Module, abc.ABC):
    """A model with its pre- and post-processing, which can be exported.

    A subclass defines `kind`, `result`, `predict` and `signatures`, and keeps its constructor's
    arguments under their names.
    """

    model: Any
    seeds: Sequence[Any] = ()
    _core: "Pipeline | None" = None

    @abc.abstractmethod
    def signatures(self) -> dict[str, Any]:
        """The functions that an export offers, "serving_default" among them."""

    def resources(self) -> list[Any]:
        """The tokenizers and seeds that these functions refer to."""
        parts = [getattr(self, name) for name in inspect.signature(type(self)).parameters]
        return [part for part in parts if isinstance(part, tf.Module)] + [*self.seeds]

    def options(self) -> dict[str, Any]:
        """The constructor's arguments that are plain data, for export.json."""
        names = inspect.signature(type(self)).parameters
        options = {name: getattr(self, name) for name in names if not name.endswith(PARTS)}
        if "decoder" in options:
            options["decoder"] = decoder_options(options["decoder"])
        return options

    def with_core_ops(self) -> "Pipeline":
        """The same pipeline with tokenizers that use no op of tensorflow-text; made only once."""
        if self._core is not None:
            return self._core
        names = inspect.signature(type(self)).parameters
        models = {name: getattr(self, name) for name in names if name.endswith("model")}
        parts = {name: getattr(self, name) for name in names if name.endswith("tokenizer")}
        core = {id(part): part.with_core_ops() for part in parts.values()}  # two may be the same
        parts = {name: core[id(part)] for name, part in parts.items()}
        # the size of images is the model's
        options = {name: value for name, value in self.options().items() if name != "image_size"}
        self._core = type(self)(**models, **parts, **options)
        return self._core


def is_truncated(outputs: dict[str, np.ndarray], row: int) -> bool:
    """Whether a text was truncated; images are not, and older exports do not say it."""
    return bool(outputs["truncated"][row]) if "truncated" in outputs else False


def decode_pieces(padded: np.ndarray) -> list[str]:
    """A row of subwords without its padding, which is empty strings."""
    return [piece.decode() for piece in padded if piece]


def to_bytes(item: str | bytes) -> bytes:
    """UTF-8, without lone surrogates, which are no characters."""
    return item.encode(errors="ignore") if isinstance(item, str) else item
