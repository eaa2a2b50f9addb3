"""The server as an application of Ray Serve: replicas on several machines behind one address.

    tfx-transformer serve served/mine --engine ray --replicas 4
    serve run tfx_transformer.serving.ray:app models=served/mine replicas=4 max_replicas=8

The HTTP application is that of `serve` (Ray has no part for our gRPC). The folders must be at the
same paths on all machines. Requests that a replica is at when it dies fail; Ray sends all others
to the other replicas, and starts a new one.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pydantic
import ray
from ray import serve

from tfx_transformer.export import load as load_export
from tfx_transformer.serving.app import OPEN, create_app
from tfx_transformer.serving.cluster import start_ray
from tfx_transformer.serving.metrics import Metrics
from tfx_transformer.serving.options import AccessOptions, RayOptions, ServingOptions, name_folders
from tfx_transformer.serving.repository import Repository
from tfx_transformer.serving.server import start_log
from tfx_transformer.serving.threads import choose_threads, set_threads

CHECKS = 2.0  # seconds between two health checks of a replica
GRACE = 5.0  # seconds that a replica has for its end, after the deadline of its requests
ATTEMPTS = 3  # to start the first replicas
log = logging.getLogger(__name__)


@serve.ingress()
class Server:
    """A replica: it is ready when all its models are loaded and warmed up.

    Args:
        folders: by the names of the models.
        options: batches, limits and times.
        load: folder → a pipeline or a loaded export.
        access: who may call the server.
    """

    async def __init__(  # type: ignore[misc]
        self,
        folders: dict[str, Path],
        options: ServingOptions,
        load: Callable[[Path], Any],
        access: AccessOptions,
    ):
        start_log()
        set_threads(options)
        metrics = Metrics()
        self.repository = Repository(folders, options, load, metrics.observe)
        self.repository.start()
        while not await asyncio.to_thread(self.repository.wait, 0.5):
            if failures := self.repository.failures():
                raise ValueError("; ".join(failures))
        self.application = create_app(self.repository, options, access, metrics)

    def __serve_build_asgi_app__(self):
        """For Ray, after the constructor."""
        return self.application

    def check_health(self) -> None:
        """For Ray: it replaces a replica for which this raises."""
        if not self.repository.is_ready:
            raise RuntimeError("a model is not loaded")

    async def __del__(self) -> None:
        """For Ray, after the last request."""
        await asyncio.to_thread(self.repository.close)


def build(
    folders: dict[str, Path],
    options: ServingOptions,
    ray_options: RayOptions,
    load: Callable[[Path], Any] = load_export,
    access: AccessOptions = OPEN,
) -> serve.Application:
    """The application for `serve.run`; arguments as in `serving.server.serve`."""
    replicas, most = ray_options.replicas, ray_options.max_replicas
    number: dict[str, Any] = {"num_replicas": replicas}
    if most > replicas:
        target = ray_options.target_requests or options.max_batch_size
        scaling = {"min_replicas": replicas, "max_replicas": most}
        number = {"autoscaling_config": scaling | {"target_ongoing_requests": target}}
    deployment: Any = serve.deployment(
        Server,
        **number,
        ray_actor_options={"num_cpus": ray_options.num_cpus},
        max_ongoing_requests=options.max_waiting,
        max_queued_requests=options.max_waiting,
        backpressure_config={"retry_after_s": 1},
        health_check_period_s=CHECKS,
        graceful_shutdown_timeout_s=options.deadline + GRACE,
        max_constructor_retry_count=ATTEMPTS,
    )
    paths = {name: Path(folder).absolute() for name, folder in folders.items()}
    return deployment.bind(paths, options, load, access)


def app(arguments: dict[str, str]) -> serve.Application:
    """For `serve run tfx_transformer.serving.ray:app models=NAME=FOLDER,FOLDER …`, of exports.

    Further arguments are the fields of ServingOptions and RayOptions. A token is read from the
    environment: TFX_TRANSFORMER_TOKEN.
    """
    kinds = (ServingOptions, RayOptions)
    known = {"models", *(field.name for kind in kinds for field in fields(kind))}
    for name in arguments.keys() - known:
        raise ValueError(f"unknown argument {name!r}; known: {', '.join(sorted(known))}")
    options, ray_options = (parse(kind, arguments) for kind in kinds)
    folders = name_folders([name for name in arguments.get("models", "").split(",") if name])
    options = choose_threads(options, folders)
    return build(folders, options, ray_options, access=OPEN.with_environment())


def parse(kind: type, arguments: dict[str, str]) -> Any:
    """The options of one class among the arguments, from strings."""
    own = {x.name: arguments[x.name] for x in fields(kind) if x.name in arguments}
    return pydantic.TypeAdapter(kind).validate_python(own)


def run(application: serve.Application, host: str, port: int, ray_options: RayOptions) -> None:
    """Serves until SIGTERM or Ctrl-C; then the requests in progress are answered."""
    stopped = threading.Event()
    logging.getLogger("ray.serve").setLevel("ERROR")
    start_ray(ray_options.replicas * ray_options.num_cpus)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        serve.start(http_options={"host": host, "port": port})
        serve.run(application)
        log.info("ready: http://%s:%d", host, port)
        stopped.wait()
    except RuntimeError as error:
        raise ValueError(find_reason()) from error
    finally:
        serve.shutdown()
        ray.shutdown()


def find_reason() -> str:
    """Why the replicas cannot start: the last line of the error of one."""
    applications = serve.status().applications.values()
    messages = [x.message for one in applications for x in one.deployments.values()]
    lines = "\n".join(messages).strip().splitlines() or ["see the logs of Ray"]
    return f"the replicas cannot start: {lines[-1].removeprefix('ValueError: ')}"
