"""Requests that would be too late are refused at once."""

import math
from concurrent.futures import Future

import pytest

from tfx_transformer.serving import admission
from tfx_transformer.serving.admission import Admission
from tfx_transformer.serving.errors import Overloaded, Unavailable
from tfx_transformer.serving.options import ServingOptions


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test advances."""
    now = [1000.0]
    monkeypatch.setattr(admission.time, "monotonic", lambda: now[0])
    return now


def make(**options):
    return Admission("toy", ServingOptions(**{"max_batch_size": 4, "max_waiting": 20} | options))


def answer(made, clock, count, seconds):
    """Accepts and answers requests; each waiting one takes some seconds."""
    tickets = [made.admit() for _ in range(count)]
    for ticket in tickets:
        clock[0] += seconds
        made.release(ticket, Future())


def test_more_than_the_limit_is_refused_but_for_one_large_request():
    made = make()
    made.admit(30)
    with pytest.raises(Overloaded, match="toy has 30 waiting requests; try later"):
        made.admit()
    for _ in range(11):
        made.release()
    made.admit()
    assert made.waiting == 20


def test_a_request_that_would_be_late_is_refused_at_once(clock):
    made = make()
    answer(made, clock, 10, seconds=2.0)
    for _ in range(4):
        made.admit(deadline=clock[0] + 8)  # less than a batch waits: it may be quick
    made.admit(deadline=clock[0] + 60)
    with pytest.raises(Overloaded, match="too many waiting requests to answer in time"):
        made.admit(deadline=clock[0] + 8)
    made.admit()
    assert made.waiting == 6


def test_a_quick_model_accepts_again(clock):
    made = make()
    answer(made, clock, 10, seconds=2.0)
    for _ in range(20):
        answer(made, clock, 4, seconds=0.1)
    for _ in range(10):
        made.admit(deadline=clock[0] + 8)


def cancel(made, clock, count, seconds, deadline=math.inf):
    """Accepts parts of requests that are canceled after some seconds."""
    canceled = Future()
    canceled.cancel()
    tickets = [made.admit(deadline=deadline) for _ in range(count)]
    clock[0] += seconds
    for ticket in tickets:
        made.release(ticket, canceled)


def test_what_is_canceled_or_alone_says_nothing_about_the_time(clock):
    made = make()
    cancel(made, clock, 4, seconds=100)
    answer(made, clock, 1, seconds=100)
    for _ in range(8):
        made.admit(deadline=clock[0] + 1)


def test_what_was_canceled_at_its_deadline_counts(clock):
    made = make()
    cancel(made, clock, 4, seconds=30, deadline=clock[0] + 30)
    with pytest.raises(Overloaded):
        for _ in range(8):
            made.admit(deadline=clock[0] + 30)
    assert made.waiting == 4


def test_a_closed_model_refuses(clock):
    made = make()
    made.close()
    with pytest.raises(Unavailable, match="toy is being closed"):
        made.admit()
