"""The HTTP application: TensorFlow Serving's REST API, the friendly API, health, metrics, page."""

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
from tfx_transformer.serving.metrics import CONTENT_TYPE, Metrics
from tfx_transformer.serving.middleware import RequestMiddleware
from tfx_transformer.serving.options import AccessOptions, ServingOptions
from tfx_transformer.serving.requests import ActiveRequests

OPEN = AccessOptions()
PAGE = Path(__file__).parent / "page"
POLICY = (  # pages load nothing from elsewhere, and run no scripts but their own files
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def create_app(
    repository: Any,
    options: ServingOptions,
    access: AccessOptions = OPEN,
    metrics: Metrics | None = None,
) -> FastAPI:
    """The application for all models of a `Repository`, which the caller starts and closes.

    Args:
        repository: the models.
        options: limits and times.
        access: who may call the server. Health and the files of the page need no token.
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
    active = app.state.active = ActiveRequests(options)
    metrics = metrics or Metrics()
    metrics.watch(repository)
    app.include_router(rest.create_router(repository, active))
    app.include_router(api.create_router(repository, active))

    @app.get("/healthz")
    async def healthz() -> Response:
        """Whether the process lives."""
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz")
    async def readyz() -> Response:
        """Whether all models are loaded and warm, and the server does not stop."""
        if active.is_draining or not repository.is_ready:
            state = "draining" if active.is_draining else "loading"
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
    app.add_middleware(RequestMiddleware, metrics=metrics, access=access)
    if access.cors_origin:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(access.cors_origin),
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
