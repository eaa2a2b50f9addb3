"""Around every HTTP request: its id, host, token, headers, a line in the log, metrics, errors."""

import json
import logging
import time
from typing import Any

from tfx_transformer.serving.metrics import Metrics
from tfx_transformer.serving.options import AccessOptions
from tfx_transformer.serving.requests import Disconnected, has_token, request_id

PROBES = ("/healthz", "/readyz")
OPEN = ("/", *PROBES)  # need no token; the page itself shows nothing
STATIC = "/static/"  # the files of the page
HEADERS = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
LOGGED = 1000  # characters of a request that --log-text shows

log = logging.getLogger(__name__)


class RequestMiddleware:
    """An ASGI middleware.

    Args:
        app: the application.
        metrics: counts the requests.
        access: the token and the hosts that requests must have.
    """

    def __init__(self, app: Any, metrics: Metrics, access: AccessOptions):
        self.app, self.metrics, self.access = app, metrics, access
        self.hosts = {host.lower() for host in access.allow_host}

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, headers = time.perf_counter(), dict(scope["headers"])
        identity = request_id(headers.get(b"x-request-id", b""))
        scope.setdefault("state", {})
        status, text = 0, b""

        async def send_with_headers(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [*HEADERS, (b"x-request-id", identity.encode())]
                message = message | {"headers": [*message.get("headers", ()), *own]}
            await send(message)

        async def receive_and_keep():
            nonlocal text
            message = await receive()
            text += message.get("body", b"")[: LOGGED - len(text)]
            return message

        try:
            if not self.is_known(host_name(headers.get(b"host", b""))):
                names = ", ".join(sorted(self.hosts))
                error = f"the header Host must be one of {names} (--allow-host adds more)"
                await reply(send_with_headers, 403, error)
            elif not self.is_allowed(scope["path"], headers):
                extra = [(b"www-authenticate", b"Bearer")]
                await reply(send_with_headers, 401, "the bearer token is missing or wrong", extra)
            else:
                keep = self.access.log_text
                await self.app(scope, receive_and_keep if keep else receive, send_with_headers)
        except Disconnected:
            status = status or 499
        except Exception:
            log.exception("request %s failed", identity)
            if not status:
                await reply(send_with_headers, 500, f"internal error, request {identity}")
        finally:
            seconds = time.perf_counter() - start
            self.metrics.count(scope, status or 499, seconds)
            path = json.dumps(scope["path"][:200])[1:-1]
            shown = json.dumps(text.decode("utf-8", "replace")) if self.access.log_text else ""
            level = logging.DEBUG if path in PROBES else logging.INFO
            facts = scope["method"], path, status or 499, 1000 * seconds, identity, shown
            log.log(level, "%s %s %d %.1f ms %s %s", *facts)

    def is_known(self, host: str) -> bool:
        return not self.hosts or not host or host in self.hosts  # browsers always send one

    def is_allowed(self, path: str, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", b"")
        return path in OPEN or path.startswith(STATIC) or has_token(given, self.access.token)


def host_name(header: bytes) -> str:
    """The name without the port; addresses of IPv6 are in brackets."""
    name = header.decode("latin-1").lower()
    return name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]


async def reply(send, status: int, error: str, headers=()) -> None:
    """An error in the form of TensorFlow Serving."""
    body = json.dumps({"error": error}).encode()
    own = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})
