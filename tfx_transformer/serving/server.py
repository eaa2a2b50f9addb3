"""Runs HTTP and gRPC for the models of a repository, until SIGTERM or Ctrl-C."""

import logging
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from tfx_transformer.serving.app import OPEN, create_app
from tfx_transformer.serving.metrics import Metrics
from tfx_transformer.serving.options import AccessOptions, ServingOptions
from tfx_transformer.serving.repository import Repository
from tfx_transformer.serving.requests import ActiveRequests
from tfx_transformer.serving.threads import set_threads

KEEP_ALIVE = 75  # seconds of an idle connection; proxies and clients reuse theirs for about 60
log = logging.getLogger(__name__)


def serve(
    listener: socket.socket,
    folders: dict[str, Path],
    options: ServingOptions,
    load: Callable[[Path], Any],
    ready: Callable[[], None] = lambda: None,
    grpc_port: int = 0,
    access: AccessOptions = OPEN,
) -> None:
    """Serves the models on a listening socket, and drains at SIGTERM.

    Args:
        listener: for HTTP; gRPC listens on the same address.
        folders: by the names of the models.
        options: batches, limits and times.
        load: folder → a pipeline or a loaded export.
        ready: called when all models are ready for the first time.
        grpc_port: 0 is none.
        access: who may call the server.
    """
    set_threads(options)
    metrics = Metrics()
    repository = Repository(folders, options, load, metrics.observe)
    app = create_app(repository, options, access.at(listener.getsockname()[0]), metrics)
    address = show_address(listener)
    grpc_server, where = None, f"http://{address}"
    if grpc_port:
        from tfx_transformer.serving.grpc_server import create_grpc_server

        grpc_server = create_grpc_server(repository, options, access.token, metrics)
        host = address.rpartition(":")[0]
        try:
            grpc_server.add_insecure_port(f"{host}:{grpc_port}")
        except RuntimeError:
            raise OSError(f"grpc_port must be free; got grpc_port={grpc_port}") from None
        grpc_server.start()
        where += f", gRPC {host}:{grpc_port}"
    server = DrainingServer(app, options, grpc_server)
    failures: list[str] = []

    def announce() -> None:
        while not repository.wait(0.1):
            failures[:] = repository.failures()
            if failures or server.is_draining:
                server.should_exit = True
                return
        ready()
        names = ", ".join(f"{x}/{repository.get(x).version}" for x in repository.names())
        log.info("ready: %s (%s)", where, names)

    repository.start()
    threading.Thread(target=announce, daemon=True).start()
    server.run(sockets=[listener])
    if grpc_server is not None:
        grpc_server.stop(options.deadline).wait()
    repository.close()
    if failures:
        raise ValueError("; ".join(failures))
    log.info("stopped")


class DrainingServer(uvicorn.Server):
    """After SIGTERM it answers the requests in flight, refuses new ones, and then ends."""

    def __init__(self, app: FastAPI, options: ServingOptions, grpc_server: Any = None):
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=round(options.deadline) + 5,
        )
        super().__init__(config)
        self.active: ActiveRequests = app.state.active
        self.grpc_server = grpc_server
        self.end = float("inf")

    @property
    def is_draining(self) -> bool:
        return self.active.is_draining

    def handle_exit(self, sig, frame) -> None:
        """At the first signal drains, at the second one ends at once."""
        if self.is_draining:
            self.should_exit = self.force_exit = True
        self.active.is_draining = True
        self.end = min(self.end, time.monotonic() + self.active.options.deadline)

    async def on_tick(self, counter: int) -> bool:
        if self.is_draining and self.grpc_server is not None:
            self.grpc_server.stop(self.active.options.deadline)
            self.grpc_server = None
        is_drained = not self.active.count or time.monotonic() > self.end
        return await super().on_tick(counter) or (self.is_draining and is_drained)


def show_address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def start_log() -> None:
    """Lines with the time on standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    logger = logging.getLogger("tfx_transformer")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
