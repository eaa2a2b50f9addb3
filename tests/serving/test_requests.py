import asyncio
import math
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tfx_transformer.serving import requests
from tfx_transformer.serving.errors import DeadlineExceeded, InvalidRequest, Overloaded, TooLarge
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.requests import (
    LARGE,
    ActiveRequests,
    Disconnected,
    deadline_of,
    offload,
    parse_json,
)


@pytest.mark.parametrize(
    "body, message",
    [
        (b"", "must be JSON in UTF-8; it is empty"),
        (b"{", "must be JSON"),
        (b"[1]", "must be an object"),
        (b"null", "must be an object"),
        (b'{"a": NaN}', "must not have NaN"),
        (b'{"a": -Infinity}', "must not have -Infinity"),
        (b'{"a": 1, "a": 2}', "must be unique"),
        (b'{"a": {"b": 1, "b": 2}}', "must be unique"),
        (b'{"a": "\xff"}', "JSON in UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "JSON in UTF-8"),
        (b'{"a": ' + 5000 * b"1" + b"}", "JSON in UTF-8"),
        (b'{"a": ' + 100_000 * b"[" + 100_000 * b"]" + b"}", "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body, message):
    with pytest.raises(InvalidRequest, match=message) as error:
        parse_json(body)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_tensorflow_serving_allows_special_floats():
    assert math.isnan(parse_json(b'{"a": NaN}', allow_nan=True)["a"])


def test_the_number_of_values_is_bounded(monkeypatch):
    monkeypatch.setattr(requests, "MAX_VALUES", 9)
    assert parse_json(b'{"a": [1, 2, 3, 4, 5, 6, 7, 8]}')
    with pytest.raises(TooLarge, match="at most 9 values"):
        parse_json(b'{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9]}')


def test_a_client_may_only_shorten_the_deadline():
    def seconds(value=None):
        headers = {} if value is None else {"x-request-timeout": value}
        deadline = deadline_of(SimpleNamespace(headers=headers), ServingOptions(deadline=20))
        return deadline - time.monotonic()

    assert seconds() == pytest.approx(20, abs=0.1) == seconds("1e9")
    assert seconds("0.5") == pytest.approx(0.5, abs=0.1)
    for value in ("", "x", "0", "-1", "nan"):
        with pytest.raises(InvalidRequest, match="x-request-timeout must be seconds above 0"):
            seconds(value)


def test_a_body_above_the_limit_is_refused_while_it_is_read(make_client):
    client = make_client(serving=ServingOptions(max_body=0.001))
    answer = client.post("/translate", content=b"x" * 1001)
    assert answer.status_code == 413 and "at most 1000 bytes" in answer.json()["error"]
    assert answer.headers["connection"] == "close"
    sent = 0

    async def chunks():  # without a content-length
        nonlocal sent
        for _ in range(1000):
            sent += 100
            yield b"x" * 100

    answer = client.post("/translate", content=chunks())
    assert answer.status_code == 413 and sent < 2000


def test_all_bodies_together_are_bounded(make_client):
    client = make_client(serving=ServingOptions(max_body=0.001))
    active = client.app.state.active
    for before, status in ((7900, 200), (7990, 429)):
        active.bytes = before
        answer = client.post("/translate", {"text": "a b c d"})
        assert (answer.status_code, active.bytes, active.count) == (status, before, 0)
    assert answer.headers["retry-after"] == "1"


async def stays():
    await asyncio.sleep(100)


async def leaves():
    await asyncio.sleep(0.01)
    return {"type": "http.disconnect"}


def wait(future, seconds=5.0, receive=stays):
    active = ActiveRequests(ServingOptions())
    return asyncio.run(active.wait(future, time.monotonic() + seconds, receive))


def test_the_result_or_error_of_a_future():
    done, failed = Future(), Future()
    done.set_result(7)
    failed.set_exception(KeyError("x"))
    assert wait(done) == 7
    with pytest.raises(KeyError):
        wait(failed)


def test_a_deadline_cancels_the_work():
    future = Future()
    with pytest.raises(DeadlineExceeded):
        wait(future, 0.01)
    assert future.cancelled()


def test_a_client_that_leaves_cancels_the_work():
    future = Future()
    with pytest.raises(Disconnected):
        wait(future, receive=leaves)
    assert future.cancelled()


def test_a_request_that_ends_at_its_deadline_is_no_longer_counted(make_client, repository):
    client = make_client()
    repository.models["translator"].may_run.clear()
    answer = client.post("/translate", {"text": "a"}, headers={"X-Request-Timeout": "0.05"})
    assert answer.status_code == 504 and client.app.state.active.count == 0
    repository.models["translator"].may_run.set()


def test_a_stream_that_nobody_reads_ends():
    made = []

    def parts():
        for i in range(1000):
            made.append(i)
            time.sleep(0.002)
            yield str(i)

    async def read_two():
        stream = ActiveRequests(ServingOptions()).stream(parts)
        found = [await anext(stream), await anext(stream)]
        await stream.aclose()
        await asyncio.sleep(0.05)
        return found, len(made)

    found, count = asyncio.run(read_two())
    assert found == ["0", "1"] and len(made) == count < 1000


def test_too_many_streams_are_refused_at_once():
    may_end = threading.Event()

    def parts():
        may_end.wait(5)
        yield "a"

    async def read():
        active = ActiveRequests(ServingOptions(max_batch_size=1, max_waiting=2))
        accepted = [asyncio.ensure_future(anext(active.stream(parts))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await anext(active.stream(parts))
        may_end.set()
        assert await asyncio.gather(*accepted) == ["a", "a"]
        while not active.places.acquire(blocking=False):  # its thread has ended
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(read(), 5))


def test_large_work_leaves_the_event_loop():
    async def threads():
        here = threading.get_ident()
        return [here == await offload(threading.get_ident, size=size) for size in (1, LARGE + 1)]

    assert asyncio.run(threads()) == [True, False]
