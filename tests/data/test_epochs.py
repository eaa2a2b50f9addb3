"""Streams of batches can resume at any step of any epoch."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.epochs import BucketedBatches, EpochBatches


class Counted(EpochBatches):
    """Batch s of epoch e is the number 10·e + s."""

    steps_per_epoch = 4
    signature = tuple(tf.TensorSpec([], tf.int32) for _ in range(3))

    def batch_arrays(self, epoch, step):
        for i in range(step, 4):
            yield 10 * epoch + i, -i, 1


class Made(Counted):
    """The same in a dict; counts how often it is traced."""

    signature = (tf.TensorSpec([], tf.int32),)
    traces = 0

    def batch_arrays(self, epoch, step):
        yield from (arrays[:1] for arrays in super().batch_arrays(epoch, step))

    def make_batch(self, number):
        self.traces += 1
        return {"number": number}, number + 1, 1.0


class Mapped(EpochBatches):
    """Batches of three rows [row number, epoch], each row changed on its own."""

    steps_per_epoch, batch_size = 2, 3
    signature = (tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([None], tf.int32))

    def batch_arrays(self, epoch, step):
        for i in range(step, 2):
            rows = np.arange(3, dtype="int32") + 3 * i
            yield np.stack([rows, np.full(3, epoch, "int32")], axis=1), rows

    def map_example(self, row, target):
        return tf.reduce_sum(row * [1, 100]), target

    def make_batch(self, sums, targets):
        return sums, targets, tf.ones_like(targets)


def numbers(dataset):
    return [int(inputs) for inputs, _, _ in dataset.as_numpy_iterator()]


def test_a_dataset_has_the_batches_of_one_epoch_from_a_step_on():
    assert numbers(Counted().dataset()) == [0, 1, 2, 3]
    assert numbers(Counted().dataset(2, 3)) == [23]
    assert numbers(Counted().dataset(1, 4)) == []


def test_a_stream_continues_with_the_next_epoch():
    assert numbers(Counted().stream(1, 2).take(8)) == [12, 13, 20, 21, 22, 23, 30, 31]
    assert numbers(Counted().stream(1, 4).take(2)) == [20, 21]


def test_a_stream_restarts_each_time_it_is_iterated():
    stream = Counted().stream(1, 2).take(5)
    assert numbers(stream) == numbers(stream)


def test_a_batch_is_made_from_the_arrays_by_one_traced_function():
    made = Made()
    inputs, targets, weights = next(made.dataset(1).as_numpy_iterator())
    assert (inputs, targets, weights) == ({"number": np.int32(10)}, 11, 1.0)
    made.dataset(2)
    made.stream()
    assert made.traces == 1


def test_single_rows_can_be_changed_before_they_are_batched():
    batches = list(Mapped().stream(1, 1).take(2).as_numpy_iterator())
    assert [batch[0].tolist() for batch in batches] == [[103, 104, 105], [200, 201, 202]]
    assert [batch[1].tolist() for batch in batches] == [[3, 4, 5], [0, 1, 2]]
    assert Mapped().dataset(0, 1).cardinality() == 1
    assert Mapped().dataset().element_spec[0].shape == (3,)


def test_bucketed_batches_know_their_shapes_beforehand():
    class Bucketed(BucketedBatches):
        def batch_arrays(self, epoch, step):
            yield from self.epoch_batches(epoch)[step:]

    data = Bucketed(np.array([2, 3, 8, 2, 7]), {3: 2, 8: 2}, seed=0)
    assert sorted(data.batch_shapes()) == [(2, 3), (2, 8), (2, 8)] and data.steps_per_epoch == 3
    rows = [row for batch in data.batch_arrays(1, 0) for row in batch.rows]
    assert sorted(rows) == [-1, 0, 1, 2, 3, 4]


def test_the_number_of_batches_is_known_in_advance():
    assert Counted().dataset(0, 1).cardinality() == 3
    assert Counted().stream().cardinality() == tf.data.INFINITE_CARDINALITY


def test_autotune_is_off():
    assert Counted().stream().options().autotune.enabled is False


@pytest.mark.parametrize("epoch, step", [(0, 5), (0, -1), (-1, 0)])
def test_a_step_outside_the_epoch_is_refused(epoch, step):
    with pytest.raises(
        ValueError, match=rf"step must lie in 0 … 4; got epoch={epoch}, step={step}"
    ):
        Counted().stream(epoch, step)
