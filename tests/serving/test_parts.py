"""Futures of parts become one future."""

from concurrent.futures import Future

import numpy as np
import pytest

from tfx_transformer.serving.errors import Overloaded, Unavailable
from tfx_transformer.serving.parts import gather


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
