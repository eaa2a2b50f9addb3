"""Requests in progress: ids, tokens, bodies, deadlines, their number, and clients that leave."""

import asyncio
import contextlib
import hmac
import json
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from starlette.requests import ClientDisconnect, Request

from tfx_transformer.serving.errors import (
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
    TooLarge,
    Unavailable,
)
from tfx_transformer.serving.options import ServingOptions

BODIES = 8  # of the largest size that are held at the same time, or many small ones
SANE_ID = re.compile(rb"[\w.:-]{1,128}", re.ASCII)
LARGE = 50_000  # bytes, or values, that the event loop should not handle itself


def request_id(given: bytes) -> str:
    """The id that a client gave its request, or a new one."""
    return given.decode() if SANE_ID.fullmatch(given) else uuid.uuid4().hex


def has_token(given: bytes, token: str | None) -> bool:
    """Whether `Bearer TOKEN` was given; without a token everything is accepted."""
    return token is None or hmac.compare_digest(given, f"Bearer {token}".encode())


class Disconnected(Exception):
    """The client left before its answer was ready."""


class ActiveRequests:
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


MAX_VALUES = 2_000_000  # in one JSON text: as Python objects they take far more memory than as text
TIMEOUT_HEADER = "x-request-timeout"  # seconds


async def read_body(
    request: Request, limit: int, take: Callable[[int], None], deadline: float
) -> bytes:
    """The body, as long as it is within the limit; the rest is not read.

    Args:
        request: of a client.
        limit: in bytes.
        take: called with the size of each part; see `ActiveRequests.request`.
        deadline: a moment of time.monotonic().
    """
    chunks, size = [], 0
    declared = request.headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > limit:
        raise TooLarge(f"the body must have at most {limit} bytes; got {declared[:20]}")
    try:
        async with asyncio.timeout(deadline - time.monotonic()):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limit:
                    raise TooLarge(f"the body must have at most {limit} bytes")
                take(len(chunk))
                chunks.append(chunk)
    except ClientDisconnect:
        raise Disconnected from None
    except TimeoutError:
        raise DeadlineExceeded("the body was not received in time") from None
    return b"".join(chunks)


def parse_json(body: bytes, allow_nan: bool = False) -> dict[str, Any]:
    """A JSON object. NaN and Infinity are no JSON, but TensorFlow Serving allows them."""
    if not body.strip():
        raise InvalidRequest("the body must be JSON in UTF-8; it is empty")
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise TooLarge(f"the JSON must have at most {MAX_VALUES} values")
    try:
        value = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=unique_keys,
            parse_constant=float if allow_nan else refuse_constant,
        )
    except RecursionError:
        raise InvalidRequest("the JSON is nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, or a number with thousands of digits
        raise InvalidRequest(f"the body must be JSON in UTF-8: {str(error)[:200]}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the JSON must be an object")
    return value


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidRequest("the keys of a JSON object must be unique")
    return found


def refuse_constant(name: str) -> None:
    raise InvalidRequest(f"the JSON must not have {name}")


def deadline_of(request: Request, options: ServingOptions) -> float:
    """The moment of time.monotonic() when the client stops waiting: its header or the limit."""
    given = request.headers.get(TIMEOUT_HEADER, "inf")
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InvalidRequest(f"{TIMEOUT_HEADER} must be seconds above 0; got {given[:20]}")
    return time.monotonic() + min(seconds, options.deadline)
