"""Around every HTTP request: its id, the token, headers, a line in the log, metrics, and errors."""

import hmac
import json
import logging
import re
import time
import uuid
from typing import Any

from tfx_transformer.serving.metrics import Metrics
from tfx_transformer.serving.traffic import Disconnected

PROBES = ("/healthz", "/readyz")
OPEN = ("/", *PROBES)  # need no token; the page itself shows nothing
STATIC = "/static/"  # the files of the page
SANE_ID = re.compile(rb"[\w.:-]{1,128}", re.ASCII)
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
LOGGED = 1000  # characters of a request that --log-text shows

log = logging.getLogger(__name__)


class Gate:
    """An ASGI middleware.

    Args:
        app: the application.
        metrics: counts the requests.
        token: that requests must have in `Authorization: Bearer TOKEN`; None accepts all.
        log_text: whether the content of requests is logged.
    """

    def __init__(self, app: Any, metrics: Metrics, token: str | None, log_text: bool):
        self.app, self.metrics, self.log_text = app, metrics, log_text
        self.authorization = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, headers = time.perf_counter(), dict(scope["headers"])
        identity = headers.get(b"x-request-id", b"")
        if not SANE_ID.fullmatch(identity):
            identity = uuid.uuid4().hex.encode()
        scope.setdefault("state", {})
        status, text = 0, b""

        async def send_with_headers(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [*HEADERS, (b"x-request-id", identity)]
                message = message | {"headers": [*message.get("headers", ()), *own]}
            await send(message)

        async def receive_and_keep():
            nonlocal text
            message = await receive()
            text += message.get("body", b"")[: LOGGED - len(text)]
            return message

        try:
            if self.is_allowed(scope, headers):
                await self.app(
                    scope, receive_and_keep if self.log_text else receive, send_with_headers
                )
            else:
                extra = [(b"www-authenticate", b"Bearer")]
                await reply(send_with_headers, 401, "the bearer token is missing or wrong", extra)
        except Disconnected:
            status = status or 499
        except Exception:
            log.exception("request %s failed", identity.decode())
            if not status:
                await reply(send_with_headers, 500, f"internal error, request {identity.decode()}")
        finally:
            seconds = time.perf_counter() - start
            self.metrics.count(scope, status or 499, seconds)
            path = json.dumps(scope["path"][:200])[1:-1]
            shown = json.dumps(text.decode("utf-8", "replace")) if self.log_text else ""
            level = logging.DEBUG if path in PROBES else logging.INFO
            facts = scope["method"], path, status or 499, 1000 * seconds, identity.decode(), shown
            log.log(level, "%s %s %d %.1f ms %s %s", *facts)

    def is_allowed(self, scope, headers) -> bool:
        path = scope["path"]
        if self.authorization is None or path in OPEN or path.startswith(STATIC):
            return True
        return hmac.compare_digest(headers.get(b"authorization", b""), self.authorization)


async def reply(send, status: int, error: str, headers=()) -> None:
    """An error in the form of TensorFlow Serving."""
    body = json.dumps({"error": error}).encode()
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})
