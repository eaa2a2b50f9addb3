import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding.loop import (
    batch_gather,
    concatenate,
    decode_loop,
    decode_rounds,
    gather_one,
    keep_done_rows,
    repeat_rows,
    set_position,
    take_rows,
)

B, M, K, D = 2, 5, 3, 4
RNG = np.random.default_rng(0)


def test_rows_are_repeated_in_succession():
    x = RNG.normal(size=(B, D))
    repeated = repeat_rows({"a": [x]}, 3)["a"][0]
    expected = np.stack([x[0], x[0], x[0], x[1], x[1], x[1]])
    np.testing.assert_allclose(ops.convert_to_numpy(repeated), expected, rtol=1e-6)
    assert repeat_rows({"a": x}, 1)["a"] is x


def test_rows_are_taken_from_every_part_of_a_structure():
    x, y = RNG.normal(size=(M, D)), RNG.normal(size=(M,))
    taken = take_rows((x, {"y": y}), ops.array([3, 0, 3]))
    np.testing.assert_allclose(ops.convert_to_numpy(taken[0]), x[[3, 0, 3]], rtol=1e-6)
    np.testing.assert_allclose(ops.convert_to_numpy(taken[1]["y"]), y[[3, 0, 3]], rtol=1e-6)


def test_batch_gather_takes_other_indices_in_each_row():
    x, y = RNG.normal(size=(B, M, D)), RNG.integers(9, size=(B, M))
    indices = np.array([[4, 0, 0], [2, 1, 3]], "int32")
    selected = batch_gather({"x": ops.array(x), "y": ops.array(y)}, ops.array(indices))
    for b in range(B):
        for k in range(K):
            index = indices[b, k]
            np.testing.assert_allclose(selected["x"][b, k], x[b, index], rtol=1e-6)
            assert int(selected["y"][b, k]) == y[b, index]


def test_gather_one_takes_one_entry_of_each_row():
    x = ops.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert ops.convert_to_numpy(gather_one(x, ops.array([2, 0], "int32"))).tolist() == [3.0, 4.0]


def test_concatenate_puts_the_second_after_the_first():
    joined = concatenate({"x": ops.array([[1, 2], [3, 4]])}, {"x": ops.array([[5], [6]])})
    assert ops.convert_to_numpy(joined["x"]).tolist() == [[1, 2, 5], [3, 4, 6]]


def test_done_rows_are_kept():
    old = (ops.zeros((B, M, D)), ops.zeros((B,)))
    new = (ops.ones((B, M, D)), ops.ones((B,)))
    deep, flat = keep_done_rows(ops.array([False, True]), old, new)
    np.testing.assert_array_equal(deep, np.stack([np.ones((M, D)), np.zeros((M, D))]))
    assert ops.convert_to_numpy(flat).tolist() == [1.0, 0.0]


def test_set_position_changes_one_column():
    tokens = ops.array([[[1, 2, 3], [4, 5, 6]]], "int32")
    written = set_position(tokens, ops.array([[8, 9]], "int32"), ops.array(1))
    assert ops.convert_to_numpy(written).tolist() == [[[1, 8, 3], [4, 9, 6]]]


def test_a_loop_runs_until_all_rows_are_done_and_carries_nested_structures():
    last = ops.array([2, 0, 5], "int32")  # the step after which a row is done

    def advance(index, rows, carry):
        rows = {"sum": [rows["sum"][0] + index], "none": ()}
        return rows, last == index, {"steps": carry["steps"] + 1}

    start = {"sum": [ops.zeros((3,), "int32")], "none": ()}
    carry = {"steps": ops.array(0, "int32")}
    rows = decode_loop(advance, start, ops.array([False, True, False]), carry)
    assert ops.convert_to_numpy(rows["sum"][0]).tolist() == [0 + 1 + 2, 0, 15]
    assert rows["none"] == ()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the number of rows changes")
@pytest.mark.parametrize("is_graph", [True, False])
def test_rounds_without_the_sentences_that_are_done_give_the_same(is_graph):
    import tensorflow as tf

    last = [2, 0, 5, 2, 9, 0, 3]  # the step after which a sentence is done
    sizes = []

    def make_step(tensors):
        def advance(index, rows, carry):
            sizes.append(carry.shape[0])
            seen = ops.reshape(carry + tensors["rows"], (-1, 2))  # of both rows of a sentence
            rows = {"seen": rows["seen"] * 3 + seen, "count": rows["count"] + 1}
            return rows, tensors["sentences"] == index, carry * 2

        return advance

    def run(loop):
        rows = {"seen": ops.zeros((7, 2), "int32"), "count": ops.zeros((7,), "int32")}
        is_done = ops.array([index == 3 for index in range(7)])
        tensors = {"sentences": ops.array(last, "int32"), "rows": ops.arange(14, dtype="int32")}
        carry = ops.arange(1, 15, dtype="int32")
        if loop is decode_loop:
            return loop(make_step(tensors), rows, is_done, carry)
        return loop(make_step, tensors, rows, is_done, carry, rows_per_sentence=2)

    expected = run(decode_loop)
    sizes.clear()
    rows = (tf.function(run, autograph=False) if is_graph else run)(decode_rounds)
    assert ops.convert_to_numpy(rows["count"]).tolist() == [3, 1, 6, 0, 10, 1, 4]
    np.testing.assert_array_equal(rows["seen"], expected["seen"])
    if not is_graph:  # seven sentences, then three, then one
        assert sizes == [14] * 3 + [6] * 3 + [2] * 4
