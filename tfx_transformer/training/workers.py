"""The processes that train one model together: what they exchange, and who writes."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf


class Workers:
    """The workers of a strategy; a single one unless it is MultiWorkerMirroredStrategy.

    All of them must call the methods in the same order. The first one, the chief, writes files.

    Args:
        strategy: of the run; None is one device.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None):
        self.strategy = strategy or tf.distribute.get_strategy()
        self.index, self.count = 0, 1
        if isinstance(self.strategy, tf.distribute.MultiWorkerMirroredStrategy):
            resolver = self.strategy.cluster_resolver
            jobs = resolver.cluster_spec().as_dict()  # {"chief": [address], "worker": [address …]}
            self.count = max(sum(map(len, jobs.values())), 1)
            after_chief = resolver.task_type == "worker" and "chief" in jobs
            self.index = (resolver.task_id or 0) + after_chief

    @property
    def is_chief(self) -> bool:
        return self.index == 0

    def gather(self, rows: np.ndarray) -> list[np.ndarray]:
        """The arrays (N, …) of all workers; N may differ."""
        if self.count == 1:
            return [rows]
        lengths = self._gather(np.array([len(rows)], "int32"))
        ends = np.cumsum(lengths)[:-1]
        return np.split(self._gather(rows), ends)

    def _gather(self, rows: np.ndarray) -> np.ndarray:
        """The rows of all workers; only the first replica of each gives any."""
        local = self.strategy.num_replicas_in_sync // self.count

        def value(context):
            is_first = context.replica_id_in_sync_group % local == 0
            return tf.constant(rows if is_first else rows[:0])

        values = self.strategy.experimental_distribute_values_from_function(value)
        return self.strategy.gather(values, axis=0).numpy()

    def gather_json(self, value: Any) -> list[Any]:
        """The values of all workers, of types that JSON has."""
        data = np.frombuffer(json.dumps(value).encode(), "uint8").astype("int32")
        return [json.loads(part.astype("uint8").tobytes()) for part in self.gather(data)]

    def of_chief(self, function: Callable[[], Any]) -> Any:
        """The result of a function that only the chief calls, of a type that JSON has."""
        if self.count == 1:
            return function()
        return self.gather_json(function() if self.is_chief else None)[0]

    @contextlib.contextmanager
    def chief_first(self) -> Iterator[None]:
        """The others enter when the chief has left."""
        if not self.is_chief:
            self.gather_json(None)
        yield
        if self.is_chief:
            self.gather_json(None)

    def divide(self, function: Callable, items: Sequence, to_json: bool = False) -> Any:
        """`function(items)`, with a result for each item, where each worker takes a part of them.

        Args:
            function: a sequence → an array (N, …), or a list of N texts or numbers.
            items: N of them.
            to_json: whether the results are in a list.
        """
        if self.count == 1:
            return function(items)
        own = items[self.index :: self.count]
        found = function(own if len(own) else items[:1])[: len(own)]
        if to_json:
            joined: Any = [None] * len(items)
            for i, part in enumerate(self.gather_json(found)):
                joined[i :: self.count] = part
        else:
            joined = np.empty((len(items), *found.shape[1:]), found.dtype)
            for i, part in enumerate(self.gather(found)):
                joined[i :: self.count] = part
        return joined
