"""A stream of batches continues at any step of any epoch."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.epochs import EpochData


class Counted(EpochData):
    """Batch s of epoch e is the number 10·e + s, ready or still to be made a triple."""

    steps_per_epoch = 4
    signature = tuple(tf.TensorSpec([], tf.int32) for _ in range(3))

    def orders(self, epoch, step):
        for i in range(step, 4):
            yield 10 * epoch + i, -i, 1


class Made(Counted):
    signature = (tf.TensorSpec([], tf.int32),)

    def orders(self, epoch, step):
        yield from ((order[0],) for order in super().orders(epoch, step))

    def triple(self, number):
        return {"number": number}, number + 1, 1.0


def numbers(dataset):
    return [int(inputs) for inputs, _, _ in dataset.as_numpy_iterator()]


def test_an_epoch_is_its_batches_from_a_step_on():
    assert numbers(Counted().dataset()) == [0, 1, 2, 3]
    assert numbers(Counted().dataset(2, 3)) == [23]
    assert numbers(Counted().dataset(1, 4)) == []


def test_a_stream_goes_on_with_the_next_epoch_from_its_beginning():
    assert numbers(Counted().stream(1, 2).take(8)) == [12, 13, 20, 21, 22, 23, 30, 31]
    assert numbers(Counted().stream(1, 4).take(2)) == [20, 21]


def test_a_stream_starts_afresh_each_time_it_is_read():
    stream = Counted().stream(1, 2).take(5)
    assert numbers(stream) == numbers(stream)


def test_the_triple_is_made_of_the_order():
    inputs, targets, weights = next(Made().dataset(1).as_numpy_iterator())
    assert (inputs, targets, weights) == ({"number": np.int32(10)}, 11, 1.0)


def test_the_number_of_batches_is_known_beforehand():
    assert Counted().dataset(0, 1).cardinality() == 3
    assert Counted().stream().cardinality() == tf.data.INFINITE_CARDINALITY


def test_its_end_waits_for_no_tuner():
    assert Counted().stream().options().autotune.enabled is False


@pytest.mark.parametrize("epoch, step", [(0, 5), (0, -1), (-1, 0)])
def test_a_place_outside_the_epoch_is_refused(epoch, step):
    with pytest.raises(
        ValueError, match=rf"step must lie in 0 … 4; got epoch={epoch}, step={step}"
    ):
        Counted().stream(epoch, step)
