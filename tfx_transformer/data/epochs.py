"""Batches that depend on the seed, the epoch and the step alone: a run continues anywhere."""

import abc
import functools
import sys
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfx_transformer.graph import as_it_is, untuned


class EpochData(abc.ABC):
    """What all such data offer: `stream()` for `fit`, `dataset()` for `evaluate` or one's own loop.

    A subclass says what an epoch is made of:

        steps_per_epoch    how many batches, the same in every epoch
        signature          of the arrays that `orders` gives for a batch, in TensorFlow's words
        orders             these arrays
        triple             inputs, targets and weights made of them, inside tf.data
    """

    steps_per_epoch: int
    signature: Any

    @abc.abstractmethod
    def orders(self, epoch: int, step: int) -> Iterator[Any]:
        """What each batch of an epoch is made of, from `step` on."""

    def triple(self, *order) -> tuple[Any, Any, Any]:
        """(inputs, targets, weights) of one batch; `orders` may give them ready."""
        inputs, targets, weights = order
        return inputs, targets, weights

    @functools.cached_property
    def _triple(self):
        """Traced once, not for every dataset."""
        return tf.function(self.triple, input_signature=self.signature, autograph=False)

    def dataset(self, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        """The batches of one epoch from `step` on."""
        return self._dataset(range(epoch, epoch + 1), step, self.steps_per_epoch - step)

    def stream(self, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        """The batches from (epoch, step) on, without end: a run continues here, exactly."""
        return self._dataset(range(epoch, sys.maxsize), step, tf.data.INFINITE_CARDINALITY)

    def _dataset(self, epochs: range, step: int, cardinality: int) -> tf.data.Dataset:
        if epochs.start < 0 or not 0 <= step <= self.steps_per_epoch:
            raise ValueError(
                f"epoch must not be negative and step must lie in 0 … {self.steps_per_epoch}; "
                f"got epoch={epochs.start}, {step=}"
            )

        def orders():
            for epoch in epochs:
                yield from self.orders(epoch, step if epoch == epochs.start else 0)

        return (
            tf.data.Dataset.from_generator(orders, output_signature=self.signature)
            .map(as_it_is(self._triple), num_parallel_calls=tf.data.AUTOTUNE)
            .apply(tf.data.experimental.assert_cardinality(cardinality))
            .apply(untuned)
            .prefetch(2)
        )
