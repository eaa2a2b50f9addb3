import asyncio
import threading
import time
from concurrent.futures import Future

import pytest

from tfx_transformer.serving.errors import DeadlineExceeded, Overloaded
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.traffic import LARGE, Disconnected, Traffic, offload


async def stays():
    await asyncio.sleep(100)


async def leaves():
    await asyncio.sleep(0.01)
    return {"type": "http.disconnect"}


def wait(future, seconds=5.0, receive=stays):
    traffic = Traffic(ServingOptions())
    return asyncio.run(traffic.wait(future, time.monotonic() + seconds, receive))


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
    assert answer.status_code == 504 and client.app.state.traffic.count == 0
    repository.models["translator"].may_run.set()


def test_a_stream_that_nobody_reads_ends():
    made = []

    def parts():
        for i in range(1000):
            made.append(i)
            time.sleep(0.002)
            yield str(i)

    async def read_two():
        stream = Traffic(ServingOptions()).stream(parts)
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
        traffic = Traffic(ServingOptions(max_batch_size=1, max_waiting=2))
        accepted = [asyncio.ensure_future(anext(traffic.stream(parts))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await anext(traffic.stream(parts))
        may_end.set()
        assert await asyncio.gather(*accepted) == ["a", "a"]
        while not traffic.places.acquire(blocking=False):  # its thread has ended
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(read(), 5))


def test_large_work_leaves_the_event_loop():
    async def threads():
        here = threading.get_ident()
        return [here == await offload(threading.get_ident, size=size) for size in (1, LARGE + 1)]

    assert asyncio.run(threads()) == [True, False]
