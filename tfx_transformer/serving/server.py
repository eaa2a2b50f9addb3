"""Runs HTTP and gRPC for the models of a repository, until SIGTERM or Ctrl-C."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from tfx_transformer.serving.app import create_app
from tfx_transformer.serving.metrics import Metrics
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.repository import Repository
from tfx_transformer.serving.traffic import Traffic

log = logging.getLogger(__name__)


def serve(
    listener: socket.socket,
    folders: dict[str, Path],
    options: ServingOptions,
    load: Callable[[Path], Any],
    ready: Callable[[], None] = lambda: None,
    grpc_port: int = 0,
    token: str | None = None,
    log_text: bool = False,
    cors_origins: Sequence[str] = (),
) -> None:
    """Serves the models on a listening socket, and drains at SIGTERM.

    Args:
        listener: for HTTP; gRPC listens on the same address.
        folders: by the names of the models.
        options: batches, limits and times.
        load: folder → a pipeline or a loaded export.
        ready: called when all models are ready for the first time.
        grpc_port: 0 is none.
        token, log_text, cors_origins: as in `create_app`.
    """
    metrics = Metrics()
    repository = Repository(folders, options, load, metrics.observe)
    app = create_app(repository, options, token, log_text, cors_origins, metrics)
    address = show_address(listener)
    grpc_server, where = None, f"http://{address}"
    if grpc_port:
        from tfx_transformer.serving.grpc_server import create_grpc_server

        grpc_server = create_grpc_server(repository, options, token, metrics)
        host = address.rpartition(":")[0]
        try:
            grpc_server.add_insecure_port(f"{host}:{grpc_port}")
        except RuntimeError:
            raise OSError(f"grpc_port must be free; got grpc_port={grpc_port}") from None
        grpc_server.start()
        where += f", gRPC {host}:{grpc_port}"
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=round(options.deadline) + 5,
    )
    server = DrainingServer(config, app.state.traffic, grpc_server)
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

    def __init__(self, config: uvicorn.Config, traffic: Traffic, grpc_server: Any = None):
        super().__init__(config)
        self.traffic, self.grpc_server = traffic, grpc_server
        self.end = float("inf")

    @property
    def is_draining(self) -> bool:
        return self.traffic.is_draining

    def handle_exit(self, sig, frame) -> None:
        """At the first signal drains, at the second one ends at once."""
        if self.is_draining:
            self.should_exit = self.force_exit = True
        self.traffic.is_draining = True
        self.end = min(self.end, time.monotonic() + self.traffic.options.deadline)

    async def on_tick(self, counter: int) -> bool:
        if self.is_draining and self.grpc_server is not None:
            self.grpc_server.stop(self.traffic.options.deadline)
            self.grpc_server = None
        is_drained = not self.traffic.count or time.monotonic() > self.end
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
