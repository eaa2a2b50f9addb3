import numpy as np
from keras import ops

from tfx_transformer.decoding.loop import (
    freeze,
    join,
    pick,
    repeat_rows,
    select,
    take_rows,
    while_loop,
    write,
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


def test_select_takes_other_places_in_each_row():
    x, y = RNG.normal(size=(B, M, D)), RNG.integers(9, size=(B, M))
    places = np.array([[4, 0, 0], [2, 1, 3]], "int32")
    selected = select({"x": ops.array(x), "y": ops.array(y)}, ops.array(places))
    for b in range(B):
        for k in range(K):
            place = places[b, k]
            np.testing.assert_allclose(selected["x"][b, k], x[b, place], rtol=1e-6)
            assert int(selected["y"][b, k]) == y[b, place]


def test_pick_takes_one_entry_of_each_row():
    x = ops.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert ops.convert_to_numpy(pick(x, ops.array([2, 0], "int32"))).tolist() == [3.0, 4.0]


def test_join_puts_the_second_behind_the_first():
    joined = join({"x": ops.array([[1, 2], [3, 4]])}, {"x": ops.array([[5], [6]])})
    assert ops.convert_to_numpy(joined["x"]).tolist() == [[1, 2, 5], [3, 4, 6]]


def test_freeze_keeps_the_old_rows_where_done():
    old = (ops.zeros((B, M, D)), ops.zeros((B,)))
    new = (ops.ones((B, M, D)), ops.ones((B,)))
    deep, flat = freeze(ops.array([False, True]), old, new)
    np.testing.assert_array_equal(deep, np.stack([np.ones((M, D)), np.zeros((M, D))]))
    assert ops.convert_to_numpy(flat).tolist() == [1.0, 0.0]


def test_write_changes_one_column():
    tokens = ops.array([[[1, 2, 3], [4, 5, 6]]], "int32")
    written = write(tokens, ops.array([[8, 9]], "int32"), ops.array(1))
    assert ops.convert_to_numpy(written).tolist() == [[[1, 8, 3], [4, 9, 6]]]


def test_a_loop_carries_nested_structures():
    def body(i, state):
        return i + 1, {"sum": [state["sum"][0] + i], "none": ()}

    start = (ops.array(0, "int32"), {"sum": [ops.zeros((B,), "int32")], "none": ()})
    i, state = while_loop(lambda i, state: i < 5, body, start)
    assert int(i) == 5
    assert ops.convert_to_numpy(state["sum"][0]).tolist() == [10, 10]
