"""Outputs of a request do not depend on the other requests of their batches."""

from concurrent.futures import Future

import numpy as np
import pytest

from tfx_transformer.serving.errors import Overloaded, Unavailable
from tfx_transformer.serving.outputs import gather, join, trim


def test_padding_for_longer_rows_of_others_is_removed():
    outputs = {
        "pieces": np.array([[b"a", b"b", b"", b""], [b"c", b"", b"", b""]], object),
        "tokens": np.array([[5, 6, 0, 0], [7, 0, 0, 0]]),
        "source_pieces": np.array([[b"x", b"", b""], [b"x", b"", b""]], object),
        "alignment": np.zeros((2, 4, 3)),
        "attention": np.zeros((2, 6, 5, 4, 3)),
        "weights": np.zeros((2, 4, 7, 7)),
        "n_best": np.array([[b"ab", b""], [b"c", b""]], object),
        "truncated": np.array([False, False]),
    }
    shapes = {name: x.shape for name, x in trim(outputs).items()}
    assert shapes == {
        "pieces": (2, 2),
        "tokens": (2, 2),
        "source_pieces": (2, 1),
        "alignment": (2, 2, 1),
        "attention": (2, 6, 5, 2, 1),
        "weights": (2, 2, 7, 7),
        "n_best": (2, 2),
        "truncated": (2,),
    }


def test_padding_inside_of_a_row_is_kept():
    outputs = trim({"pieces": np.array([[b"a", b"", b"b", b""]], object)})
    assert outputs["pieces"].tolist() == [[b"a", b"", b"b"]]


@pytest.mark.parametrize("shape", [(1, 0), (1, 3)])
def test_rows_may_be_empty(shape):
    assert trim({"tokens": np.zeros(shape, int)})["tokens"].shape == (1, 0)


def test_tokens_of_all_hypotheses_count():
    tokens = np.array([[[5, 0, 0, 0], [5, 6, 0, 0]]])
    assert trim({"tokens": tokens})["tokens"].tolist() == [[[5, 0], [5, 6]]]


def test_parts_are_joined_in_the_order_of_their_rows():
    first = {"pieces": np.array([[b"a"], [b"b"]], object), "score": np.array([1.0, 2.0])}
    second = {"pieces": np.array([[b"c", b"d"]], object), "score": np.array([3.0])}
    whole = join([(np.array([0, 2]), first), (np.array([1]), second)])
    assert whole["pieces"].tolist() == [[b"a", b""], [b"c", b"d"], [b"b", b""]]
    assert whole["score"].tolist() == [1.0, 3.0, 2.0]
    assert join([(np.array([0, 1]), first)]) is first


def test_parts_of_several_dimensions_are_padded():
    parts = [(np.array([1]), {"x": np.ones((1, 2, 3))}), (np.array([0]), {"x": np.ones((1, 4, 1))})]
    whole = join(parts)["x"]
    assert whole.shape == (2, 4, 3)
    assert whole[1, :2].all() and whole[1, 2:].sum() == 0 and whole[0].sum() == 4


@pytest.fixture
def parts():
    return [(np.array([1]), Future()), (np.array([0]), Future())]


def test_the_result_has_all_rows_when_all_parts_are_done(parts):
    whole = gather(parts)
    parts[1][1].set_result({"x": np.array([5])})
    assert not whole.done()
    parts[0][1].set_result({"x": np.array([7])})
    assert whole.result()["x"].tolist() == [5, 7]


def test_an_error_of_one_part_is_the_error_of_all(parts):
    whole = gather(parts)
    parts[0][1].set_exception(Overloaded("full"))
    parts[1][1].set_result({"x": np.array([5])})
    with pytest.raises(Overloaded, match="full"):
        whole.result()


def test_to_cancel_it_cancels_the_parts(parts):
    whole = gather(parts)
    assert whole.cancel() and all(future.cancelled() for _, future in parts)


def test_a_part_that_runs_may_end_after_all_is_canceled(parts):
    parts[0][1].set_running_or_notify_cancel()
    whole = gather(parts)
    assert whole.cancel() and not parts[0][1].cancelled()
    parts[0][1].set_result({"x": np.array([7])})
    assert whole.cancelled()


def test_a_canceled_part_is_an_error(parts):
    whole = gather(parts)
    parts[0][1].cancel()
    parts[1][1].set_result({"x": np.array([5])})
    with pytest.raises(Unavailable, match="canceled"):
        whole.result()
