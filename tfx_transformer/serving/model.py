"""ServedModel: one version of one model, whose requests are checked, bounded and batched."""

import functools
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.serving.admission import Admission
from tfx_transformer.serving.batching import BatchedFunction, Lengths
from tfx_transformer.serving.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Overloaded,
    ServingError,
    TooLarge,
    Unavailable,
)
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.outputs import gather, trim
from tfx_transformer.serving.signatures import (
    by_name,
    check_inputs,
    concrete_functions,
    read_signature,
)
from tfx_transformer.serving.streaming import stream_text
from tfx_transformer.serving.warmup import warm_up

DEFAULT, PIECES = "serving_default", "pieces"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Computed:
    """One computed part of a request, for metrics."""

    model: str
    version: int
    signature: str
    rows: int
    waiting: float  # seconds until the computation began
    computing: float  # seconds
    batch_size: int  # rows of the whole batch, with padding


class ServedModel:
    """One version of one model; all methods may be called by many threads.

    Args:
        predictor: a pipeline, or a loaded export.
        name, version, folder, label: what it is called, and where it comes from.
        limits: batches, limits and times.
        observer: called with a `Computed` after each computation.

    Attributes:
        kind: a name in PIPELINES.
        options: of the pipeline, as in export.json.
        signatures: by name; all but those with scalar inputs are computed in batches.
        max_tokens: maximum length of a source with XLA; 0 is the model's own, by truncation.
    """

    def __init__(
        self,
        predictor: Any,
        name: str = "model",
        version: int = 1,
        folder: Path = Path(),
        limits: ServingOptions | None = None,
        label: str = "",
        observer: Callable[[Computed], None] | None = None,
    ):
        if not hasattr(predictor, "signatures"):
            raise ValueError(f"{folder} must be a run, a SavedModel or a CTranslate2 export")
        self.predictor, self.kind, self.result = predictor, predictor.kind, predictor.result
        self.name, self.version, self.folder, self.label = name, version, Path(folder), label
        self.limits, self.observer = limits or ServingOptions(), observer
        options = predictor.options
        self.options: dict[str, Any] = options() if callable(options) else options
        functions = concrete_functions(predictor)
        self.signatures = {name: read_signature(f) for name, f in functions.items()}
        self._functions = {name: by_name(function) for name, function in functions.items()}
        self.is_compiled = bool(self.options.get("jit_compile"))  # by XLA, for each shape
        self.max_tokens = max_tokens(self)
        self.lengths = {
            name: Lengths(signature.inputs, self.max_tokens or self.options.get("max_length"))
            for name, signature in self.signatures.items()
        }
        self._batched = {
            key: BatchedFunction(
                self._functions[key],
                signature.inputs,
                name,
                self.lengths[key].groups,
                self.limits,
                pad=self.is_compiled,
            )
            for key, signature in self.signatures.items()
            if signature.is_batched
        }
        # enough calls to fill the next batches; the others wait here, where they can be dropped
        enough = (self.limits.num_batches + 1) * self.limits.max_batch_size
        workers = min(self.limits.max_waiting, enough)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix=f"{name}-{version}")
        self._admission = Admission(name, self.limits)

    @property
    def waiting(self) -> int:
        """Number of requests that wait or are computed; one larger than a batch counts as many."""
        return self._admission.waiting

    def predict(
        self, inputs: dict[str, Any], signature: str = DEFAULT, deadline: float | None = None
    ) -> dict[str, np.ndarray]:
        """Outputs by name, with a row for each row of the inputs.

        Args:
            inputs: arrays by name; strings as str or bytes.
            signature: a name in `signatures`.
            deadline: the moment (`time.monotonic`) at which the request is given up.

        Raises one of the classes in `errors`.
        """
        if deadline is None:
            deadline = time.monotonic() + self.limits.deadline
        future = self.submit(inputs, signature, deadline)
        try:
            return future.result(max(deadline - time.monotonic(), 0))
        except TimeoutError:
            future.cancel()
            raise DeadlineExceeded("the request was not answered in time") from None
        except CancelledError:
            raise Unavailable("the request was canceled") from None

    def submit(
        self, inputs: dict[str, Any], signature: str = DEFAULT, deadline: float | None = None
    ) -> Future:
        """As `predict`, without waiting: a future, for `asyncio.wrap_future`.

        It is refused here with an error if it is invalid or there are too many. To cancel the
        future, or its deadline, drops what is not computed yet.
        """
        if signature not in self.signatures:
            raise NotFound(
                f"{self.name} has no signature {signature}: {', '.join(self.signatures)}"
            )
        arrays = check_inputs(inputs, self.signatures[signature].inputs, self.limits)
        parts = self._cut(arrays, signature)
        ticket = self._admission.admit(len(parts), math.inf if deadline is None else deadline)
        futures = []
        for rows, group, part in parts:
            try:
                future = self._pool.submit(self._answer, part, signature, group, deadline)
            except RuntimeError:  # closed in between
                future = Future()
                future.set_exception(Unavailable(f"{self.name} is being closed"))
            future.add_done_callback(functools.partial(self._admission.release, ticket))
            futures.append((rows, future))
        return gather(futures)

    def results(self, items, signature: str = DEFAULT, deadline: float | None = None) -> list[Any]:
        """The results of strings or files as objects of the pipeline, such as `Translation`."""
        (name, *_) = self.signatures[signature].inputs
        outputs = self.predict({name: items}, signature, deadline)
        return [self.result.unpack(outputs, row) for row in range(len(items))]

    def stream(
        self, text: str, max_length: int = 64, deadline: float | None = None
    ) -> Iterator[str]:
        """The parts of a continuation of at most `max_length` tokens, as they are generated.

        Waits for the first one, so that errors are raised here.
        """
        if self.kind != "generator":
            raise InvalidRequest(f"{self.name} is a {self.kind}; only generators stream text")
        if not 1 <= max_length <= self.limits.max_characters:
            limit = self.limits.max_characters
            raise InvalidRequest(f"max_length must lie in 1 … {limit}; got {max_length}")
        specs = self.signatures[DEFAULT].inputs
        (prompt,) = check_inputs({"text": [text]}, specs, self.limits)["text"]
        parts = self._stream(prompt.decode(), max_length, deadline)
        return itertools.chain([next(parts, "")], parts)

    def warm_up(self, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Calls the model with all shapes that requests can have; progress(done, total)."""
        observer, self.observer = self.observer, None  # it observes requests only
        warm_up(self, progress)
        if self.kind == "generator":
            list(stream_text(self, "a", 2))
        self.observer = observer

    def close(self) -> None:
        """Refuses new requests and waits for those that were accepted."""
        self._admission.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _cut(self, arrays: dict[str, np.ndarray], signature: str):
        """Parts of at most a batch and of like length: row indices, group, arrays."""
        scalars = {name: x for name, x in arrays.items() if not x.ndim}
        tables = {name: x for name, x in arrays.items() if x.ndim}
        groups = self.lengths[signature].group(tables)  # (B,)
        parts: list[tuple[np.ndarray, int, dict[str, np.ndarray]]] = []
        for group in sorted(set(groups)):
            (indices,) = np.nonzero(groups == group)
            for start in range(0, len(indices), self.limits.max_batch_size):
                rows = indices[start : start + self.limits.max_batch_size]
                part = self.lengths[signature].pad({k: x[rows] for k, x in tables.items()}, group)
                parts.append((rows, group, part | scalars))
        return parts

    def _answer(self, arrays, signature: str, group: int, deadline: float | None):
        """The outputs of one part of a request."""
        if deadline is not None and time.monotonic() >= deadline:
            raise DeadlineExceeded("the request was not answered in time")
        if self.max_tokens and "text" in arrays and signature != PIECES:
            pieces = self._call_alone({"text": arrays["text"]}, PIECES)[0]["source_pieces"]
            if pieces.shape[1] > self.max_tokens:
                raise TooLarge(
                    f"text must have at most {self.max_tokens} tokens; got {pieces.shape[1]}"
                )
        return self.call(arrays, signature, group)

    def call(
        self, arrays: dict[str, np.ndarray], signature: str, group: int = 0
    ) -> dict[str, np.ndarray]:
        """The outputs of arrays that were checked, of one group, and fit in one batch."""
        started = time.time()
        rows = next(len(x) for x in arrays.values() if x.ndim)
        try:
            if signature in self._batched:
                try:
                    result = self._batched[signature](arrays, group)
                except tf.errors.InvalidArgumentError:  # which call of the batch is to blame?
                    result = self._call_alone(arrays, signature)
            else:
                result = self._call_alone(arrays, signature)
        except (tf.errors.UnavailableError, tf.errors.ResourceExhaustedError):
            raise Overloaded(f"{self.name} has too many waiting requests; try later") from None
        except tf.errors.InvalidArgumentError as error:
            raise InvalidRequest(f"{self.name} refused the inputs: {first_line(error)}") from error
        except tf.errors.OpError as error:
            log.error("%s/%d failed: %s", self.name, self.version, first_line(error))
            raise ServingError(f"{self.name} failed: {first_line(error)}") from error
        outputs, began, ended, size = result
        if self.observer is not None:
            times = max(began - started, 0.0), max(ended - began, 0.0)
            self.observer(Computed(self.name, self.version, signature, rows, *times, size))
        return trim(outputs)

    def _call_alone(self, arrays, signature: str):
        """One call alone, with the same result as a `BatchedFunction`."""
        specs, began = self.signatures[signature].inputs, time.time()
        tensors = {name: tf.constant(arrays[name], spec.dtype) for name, spec in specs.items()}
        outputs = {name: x.numpy() for name, x in self._functions[signature](tensors).items()}
        rows = next(len(x) for x in arrays.values() if x.ndim)
        return outputs, began, time.time(), rows

    def _stream(self, text: str, max_length: int, deadline: float | None) -> Iterator[str]:
        self._admission.admit()
        try:
            for part in stream_text(self, text, max_length):
                if deadline is not None and time.monotonic() >= deadline:
                    raise DeadlineExceeded("the text was not completed in time")
                yield part
        finally:
            self._admission.release()


def max_tokens(model: ServedModel) -> int:
    """The limit of a translator's sources which XLA needs to be ready for few shapes; 0 is none.

    The model itself truncates at its own length.
    """
    limit, own = model.limits.max_length, model.options.get("max_length") or 0
    if not model.is_compiled or "ids" not in model.signatures or not limit < own:
        return 0
    if limit and PIECES not in model.signatures:
        raise ValueError(f"max_length must be 0 for an export without pieces; got {limit}")
    return limit


def first_line(error: Exception) -> str:
    return (str(getattr(error, "message", error)).strip().splitlines() or [""])[0]
