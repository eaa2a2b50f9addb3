"""What every request passes: the size of its body, its JSON, and the time until its deadline."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request

from tfx_transformer.serving.errors import DeadlineExceeded, InvalidRequest, TooLarge
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.traffic import Disconnected

MAX_VALUES = 2_000_000  # in one JSON text: as Python objects they take far more memory than as text
TIMEOUT_HEADER = "x-request-timeout"  # seconds


async def read_body(
    request: Request, limit: int, take: Callable[[int], None], deadline: float
) -> bytes:
    """The body, as long as it is within the limit; the rest is not read.

    Args:
        request: of a client.
        limit: in bytes.
        take: called with the size of each part; see `Traffic.request`.
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
