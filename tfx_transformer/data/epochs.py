"""Batches that are a pure function of (seed, epoch, step), so that a run can resume anywhere."""

import abc
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_transformer.data.buckets import Batch, epoch_batches
from tfx_transformer.data.share import Share
from tfx_transformer.runtime import without_autograph, without_autotune


class EpochBatches(abc.ABC):
    """Base class of training data: `stream()` for `fit`, `dataset()` for `evaluate` or own loops.

    A subclass defines:

        steps_per_epoch    number of batches, the same in every epoch
        signature          `tf.TensorSpec` of the arrays that `batch_arrays` yields
        batch_arrays       the arrays of each batch, of the rows in `share`
        map_example        optional: changes one row of these arrays at a time, in parallel
        batch_size         rows of each batch; needed by `map_example` only
        make_batch         inputs, targets and weights from these arrays, inside tf.data

    Attributes:
        share: the rows of each batch that are built: all, or those of one of several workers.
    """

    share = Share()

    steps_per_epoch: int
    signature: Any
    map_example: Callable[..., Any] | None = None
    batch_size: int

    def divide(self, share: Share) -> None:
        """From now on builds only a share of each batch; raises if that is not possible."""
        self.share = share

    @abc.abstractmethod
    def batch_arrays(self, epoch: int, step: int) -> Iterator[Any]:
        """The arrays of each batch of an epoch, starting at `step`."""

    def make_batch(self, *arrays) -> tuple[Any, Any, Any]:
        """(inputs, targets, weights) of one batch; by default `batch_arrays` yields these."""
        inputs, targets, weights = arrays
        return inputs, targets, weights

    @functools.cached_property
    def _make_batch(self):
        """Traced once for all datasets."""
        return tf.function(self.make_batch, autograph=False)

    def dataset(self, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        """The batches of one epoch, starting at `step`."""
        return self._dataset(range(epoch, epoch + 1), step, self.steps_per_epoch - step)

    def stream(self, epoch: int = 0, step: int = 0) -> tf.data.Dataset:
        """The batches of all epochs, without end, starting at (epoch, step)."""
        return self._dataset(range(epoch, sys.maxsize), step, tf.data.INFINITE_CARDINALITY)

    def _dataset(self, epochs: range, step: int, cardinality: int) -> tf.data.Dataset:
        if epochs.start < 0 or not 0 <= step <= self.steps_per_epoch:
            raise ValueError(
                f"epoch must not be negative and step must lie in 0 … {self.steps_per_epoch}; "
                f"got epoch={epochs.start}, {step=}"
            )

        def arrays():
            for epoch in epochs:
                yield from self.batch_arrays(epoch, step if epoch == epochs.start else 0)

        dataset = tf.data.Dataset.from_generator(arrays, output_signature=self.signature)
        parallel = tf.data.AUTOTUNE
        if self.map_example is not None:
            dataset = dataset.unbatch()
            dataset = dataset.map(without_autograph(self.map_example), num_parallel_calls=parallel)
            dataset = dataset.batch(self.share.size(self.batch_size), drop_remainder=True)
            parallel = None  # batches of images are large: one at a time
        return (
            dataset.map(without_autograph(self._make_batch), num_parallel_calls=parallel)
            .apply(tf.data.experimental.assert_cardinality(cardinality))
            .apply(without_autotune)
            .prefetch(2)
        )


class BucketedBatches(EpochBatches):
    """Batches of examples of similar length, padded to a few lengths; see `epoch_batches`."""

    def __init__(self, lengths: np.ndarray, sizes: dict[Any, int], seed: int | None):
        self.lengths, self.sizes, self.seed = lengths, sizes, seed
        self.steps_per_epoch = len(self.epoch_batches())

    def epoch_batches(self, epoch: int = 0) -> list[Batch]:
        """The example indices of each batch of an epoch, in order."""
        return epoch_batches(self.lengths, self.sizes, self.seed, epoch)

    def own_batches(self, epoch: int, step: int) -> Iterator[Batch]:
        """The share of each batch of an epoch, starting at `step`."""
        return (batch.share(self.share) for batch in self.epoch_batches(epoch)[step:])

    def batch_shapes(self) -> list[tuple[int, Any]]:
        """(rows, length) of each batch; of pairs the length is (S, T)."""
        return [(len(batch.rows), batch.length) for batch in self.epoch_batches()]
