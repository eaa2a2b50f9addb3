"""Numbers about the requests and batches of a server, in the format of Prometheus."""

import contextlib
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from tfx_transformer.serving.errors import ServingError

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
NAMES = {"/v1/{path:path}": "/v1/models"}  # of routes that are templates
METHODS = ("GET", "HEAD", "OPTIONS", "POST")
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters and histograms; labels have known values only, so that their number is bounded."""

    def __init__(self) -> None:
        self.registry, self.repository = CollectorRegistry(), None  # type: Any, Any

        def histogram(name: str, text: str, labels: list[str], buckets) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

        labels = ["method", "path", "model"]
        self.requests = Counter(
            "serving_requests",
            "Requests",
            [*labels, "status"],
            registry=self.registry,
        )
        self.errors = Counter(
            "serving_errors", "Status 400 or above, or not OK", labels, registry=self.registry
        )
        self.latency = histogram("serving_request_seconds", "Time of a request", labels, SECONDS)
        labels = ["model", "signature"]
        self.rows = histogram("serving_rows", "Rows of a request, or of a part of it", labels, ROWS)
        self.batches = histogram(
            "serving_batch_rows", "Rows of the batch of a request, with padding", labels, ROWS
        )
        self.waits = histogram(
            "serving_wait_seconds", "Time of a request until its batch", labels, SECONDS
        )
        self.computations = histogram(
            "serving_compute_seconds", "Time of the batch of a request", labels, SECONDS
        )
        self.registry.register(self)  # type: ignore[arg-type]

    def watch(self, repository: Any) -> None:
        """Shows the queues of its models at each scrape."""
        self.repository = repository

    def collect(self):
        """For prometheus_client."""
        queue = GaugeMetricFamily("serving_queue", "Requests in progress", labels=["model"])
        for name in self.repository.names() if self.repository else ():
            with contextlib.suppress(ServingError):  # it is being loaded
                queue.add_metric([name], self.repository.get(name).waiting)
        yield queue

    def count(self, scope: dict[str, Any], status: int, seconds: float) -> None:
        """Counts an answered request by its route in the scope of ASGI, which is not its path."""
        route = getattr(scope.get("route"), "path", "other")
        route = NAMES.get(route, route)
        method = scope["method"] if scope["method"] in METHODS else "other"
        labels = method, route, scope["state"].get("model", "")
        self.requests.labels(*labels, str(status)).inc()
        if status >= 400:
            self.errors.labels(*labels).inc()
        self.latency.labels(*labels).observe(seconds)

    def count_call(self, method: str, model: str, code: str, seconds: float) -> None:
        """Counts an answered call of gRPC with the name of its status code."""
        labels = "gRPC", method, model
        self.requests.labels(*labels, code).inc()
        if code != "OK":
            self.errors.labels(*labels).inc()
        self.latency.labels(*labels).observe(seconds)

    def observe(self, computed: Any) -> None:
        """Counts a `Computed`, the observation of a `ServedModel`."""
        labels = computed.model, computed.signature
        self.rows.labels(*labels).observe(computed.rows)
        self.batches.labels(*labels).observe(computed.batch_size)
        self.waits.labels(*labels).observe(computed.waiting)
        self.computations.labels(*labels).observe(computed.computing)

    def show(self) -> bytes:
        return generate_latest(self.registry)
