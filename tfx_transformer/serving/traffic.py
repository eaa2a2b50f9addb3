"""The requests in flight: how many there are, their deadlines, and clients that leave."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tfx_transformer.serving.errors import DeadlineExceeded, Overloaded, Unavailable
from tfx_transformer.serving.options import ServingOptions

BODIES = 8  # of the largest size that are held at the same time, or many small ones
LARGE = 50_000  # bytes, or values, that the event loop should not handle itself


class Disconnected(Exception):
    """The client left before its answer was ready."""


class Traffic:
    """What requests of all models share.

    Attributes:
        count: number of requests that are read, wait or are computed.
        bytes: size of their bodies.
        is_draining: whether new requests are refused, because the server stops.
    """

    def __init__(self, options: ServingOptions):
        self.options, self.is_draining, self.count, self.bytes = options, False, 0, 0
        self.max_body = int(options.max_body * 1e6)
        self.streams = ThreadPoolExecutor(options.max_batch_size, "stream")
        self.places = threading.Semaphore(options.max_waiting)  # of streams

    @contextlib.contextmanager
    def request(self) -> Iterator[Callable[[int], None]]:
        """Counts a request while it is handled, so that a server that stops waits for it.

        Yields a function that counts the bytes that the request takes: all bodies together are
        bounded, too.
        """
        if self.is_draining:
            raise Unavailable("the server stops")
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if self.bytes + size > BODIES * self.max_body:
                raise Overloaded("the bodies of the waiting requests are too large; try later")
            self.bytes, taken = self.bytes + size, taken + size

        self.count += 1
        try:
            yield take
        finally:
            self.count -= 1
            self.bytes -= taken

    async def wait(
        self, future: Future | asyncio.Future, deadline: float, receive: Callable
    ) -> Any:
        """The result of a future, which is canceled at the deadline or when the client leaves.

        Args:
            future: of `ServedModel.submit`, for example.
            deadline: a moment of time.monotonic().
            receive: of ASGI; after the body, its next message says that the client left.
        """
        result = asyncio.wrap_future(future)
        left = asyncio.ensure_future(receive())
        try:
            await asyncio.wait(
                {result, left},
                timeout=deadline - time.monotonic(),
                return_when=asyncio.FIRST_COMPLETED,
            )
            if result.done():
                return result.result()
            if left.done():
                raise Disconnected
            raise DeadlineExceeded("the request was not answered in time")
        finally:
            result.cancel()
            left.cancel()

    async def stream(self, parts: Callable[[], Iterator[str]]) -> AsyncIterator[str]:
        """The parts that a thread computes, as soon as each is ready; it ends with its reader."""
        loop, stopped = asyncio.get_running_loop(), threading.Event()
        queue: asyncio.Queue[tuple[str | None, Exception | None]] = asyncio.Queue()

        def put(item) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(queue.put_nowait, item)

        def produce() -> None:
            try:
                for part in parts():
                    put((part, None))
                    if stopped.is_set():
                        return
                put((None, None))
            except Exception as error:
                put((None, error))

        if not self.places.acquire(blocking=False):
            raise Overloaded("too many texts are being generated; try later")
        future = self.streams.submit(produce)
        future.add_done_callback(lambda _: self.places.release())
        try:
            while True:
                part, error = await queue.get()
                if error is not None:
                    raise error
                if part is None:
                    return
                yield part
        finally:
            stopped.set()
            future.cancel()


async def offload(function: Callable, *arguments: Any, size: int) -> Any:
    """function(*arguments), in a thread if `size` is large."""
    if size > LARGE:
        return await asyncio.to_thread(function, *arguments)
    return function(*arguments)
