"""The HTTP application: TensorFlow Serving's REST API, the friendly API, health, metrics, page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from tfx_transformer import __version__
from tfx_transformer.serving import api, rest
from tfx_transformer.serving.docs import show_docs
from tfx_transformer.serving.errors import ServingError, TooLarge
from tfx_transformer.serving.gate import Gate
from tfx_transformer.serving.metrics import CONTENT_TYPE, Metrics
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.traffic import Traffic

PAGE = Path(__file__).parent / "page"
POLICY = (  # pages load nothing from elsewhere, and run no scripts but their own files
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_app(
    repository: Any,
    options: ServingOptions,
    token: str | None = None,
    log_text: bool = False,
    cors_origins: Sequence[str] = (),
    metrics: Metrics | None = None,
) -> FastAPI:
    """The application for all models of a `Repository`, which the caller starts and closes.

    Args:
        repository: the models.
        options: limits and times.
        token: a bearer token that all requests need, except those for health and the page.
        log_text: whether the content of requests is logged.
        cors_origins: origins whose pages may call this server.
        metrics: those that observe the repository; new ones if None.
    """
    app = FastAPI(
        title="tfx_transformer",
        version=__version__,
        description="TensorFlow Serving's REST API is at /v1/models/NAME:predict.",
        openapi_url=None,  # an own route, which metrics can name
        docs_url=None,
        redoc_url=None,
    )
    traffic = app.state.traffic = Traffic(options)
    metrics = metrics or Metrics()
    metrics.watch(repository)
    app.include_router(rest.create_router(repository, traffic))
    app.include_router(api.create_router(repository, traffic))

    @app.get("/healthz")
    async def healthz() -> Response:
        """Whether the process lives."""
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz")
    async def readyz() -> Response:
        """Whether all models are loaded and warm, and the server does not stop."""
        if traffic.is_draining or not repository.is_ready:
            state = "draining" if traffic.is_draining else "loading"
            return Response(state + "\n", 503, {"Retry-After": "1"}, "text/plain")
        return Response("ready\n", media_type="text/plain")

    @app.get("/metrics")
    async def show_metrics() -> Response:
        """For Prometheus."""
        return Response(metrics.show(), headers={"Content-Type": CONTENT_TYPE})

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return rest.json_response(app.openapi())

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return html(show_docs(app.openapi()))

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return html((PAGE / "index.html").read_text("utf-8"))

    app.mount("/static", StaticFiles(directory=PAGE))
    app.add_exception_handler(ServingError, show_error)
    app.add_exception_handler(HTTPException, show_http_error)
    app.add_middleware(Gate, metrics=metrics, token=token, log_text=log_text)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    return app


def html(text: str) -> HTMLResponse:
    return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})


async def show_error(_, error: Any) -> Response:
    response = rest.json_response({"error": str(error)}, error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, TooLarge):
        response.headers["Connection"] = "close"  # the rest of the body is not read
    return response


async def show_http_error(_, error: Any) -> Response:
    """Unknown paths and methods."""
    return rest.json_response({"error": error.detail}, error.status_code)
