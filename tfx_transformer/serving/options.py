"""The options of a server."""

from dataclasses import dataclass

from tfx_transformer.checks import check_above_zero, check_positive, check_whole


@dataclass(frozen=True)
class ServingOptions:
    """Batches, limits and times, for every model of a server.

    Args:
        max_batch_size: maximum number of rows that are computed together.
        batch_timeout: milliseconds that a request waits for others to share its batch.
        max_waiting: maximum number of requests that wait or are computed; more are refused.
        max_rows: maximum number of rows of one request.
        max_body: maximum size of a request in megabytes.
        max_characters: maximum length of a text in characters.
        max_length: longest source in tokens that is warmed up and accepted by models compiled with
            XLA; 0 is the model's own length.
        deadline: seconds after which a request is given up.
        poll: seconds between two looks for new versions in a model's folder; 0 never looks.
        warm_up: whether a model is called with all shapes before it is ready.
    """

    max_batch_size: int = 32
    batch_timeout: float = 2.0
    max_waiting: int = 256
    max_rows: int = 256
    max_body: float = 32.0
    max_characters: int = 10_000
    max_length: int = 0
    deadline: float = 30.0
    poll: float = 2.0
    warm_up: bool = True

    def __post_init__(self):
        check_positive(
            max_batch_size=self.max_batch_size,
            max_waiting=self.max_waiting,
            max_rows=self.max_rows,
            max_characters=self.max_characters,
        )
        check_above_zero(max_body=self.max_body, deadline=self.deadline)
        for name in ("batch_timeout", "max_length", "poll"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative; got {name}={getattr(self, name)}")

    @property
    def allowed_batch_sizes(self) -> list[int]:
        """Powers of two below the maximum, and the maximum: batches are padded to these."""
        sizes = [2**i for i in range(self.max_batch_size.bit_length())]
        return sorted(
            {*(size for size in sizes if size < self.max_batch_size), self.max_batch_size}
        )


@dataclass(frozen=True)
class RayOptions:
    """The replicas of a server on Ray.

    Args:
        replicas: processes that answer requests, each with all models.
        max_replicas: maximum number of replicas under load; 0 keeps their number.
        target_requests: requests in progress for each replica, which decide how many there are; 0
            is max_batch_size.
        num_cpus: that Ray reserves for each replica.
    """

    replicas: int = 1
    max_replicas: int = 0
    target_requests: int = 0
    num_cpus: float = 1.0

    def __post_init__(self):
        check_positive(replicas=self.replicas)
        check_whole(max_replicas=self.max_replicas, target_requests=self.target_requests)
        check_above_zero(num_cpus=self.num_cpus)
        if 0 < self.max_replicas < self.replicas:
            raise ValueError(
                f"max_replicas must be 0 or at least replicas={self.replicas}; "
                f"got max_replicas={self.max_replicas}"
            )
