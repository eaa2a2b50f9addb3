"""The options of a server, and the models that its command names."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfx_transformer.checks import check_above_zero, check_positive, check_whole

LOCAL = ("localhost", "127.0.0.1", "::1")  # names of this machine


@dataclass(frozen=True)
class ServingOptions:
    """Batches, limits and times, for every model of a server.

    Args:
        max_batch_size: maximum number of rows that are computed together.
        batch_timeout: milliseconds that a request waits for others to share its batch; those that
            arrive while all threads compute share one in any case.
        threads: cores that one operation uses; several batches are computed at the same time on
            the others. 0 is one for translators and language models, and all for other models.
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
    batch_timeout: float = 0.0
    threads: int = 0
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
        check_whole(threads=self.threads)
        check_above_zero(max_body=self.max_body, deadline=self.deadline)
        for name in ("batch_timeout", "max_length", "poll"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative; got {name}={getattr(self, name)}")

    @property
    def num_batches(self) -> int:
        """Batches of one model that are computed at the same time."""
        cores = os.cpu_count() or 1
        return max(2, cores // self.threads if self.threads else min(cores // 2, 8))

    @property
    def allowed_batch_sizes(self) -> list[int]:
        """Powers of two below the maximum, and the maximum: with XLA batches have these sizes."""
        sizes = [2**i for i in range(self.max_batch_size.bit_length())]
        return sorted(
            {*(size for size in sizes if size < self.max_batch_size), self.max_batch_size}
        )


@dataclass(frozen=True)
class AccessOptions:
    """Who may call a server, and what is logged.

    Args:
        token: requests must have it, in the header Authorization: Bearer TOKEN. It can also be set
            by the environment variable TFX_TRANSFORMER_TOKEN. Without it all are accepted.
        allow_host: names by which other machines call the server, such as models.example.org: then
            only these and those of this machine are accepted in the header Host. Without it, a
            server that listens at this machine alone accepts only names of this machine.
        cors_origin: origins whose pages may call the server, such as https://example.org.
        log_text: log the content of requests.
    """

    token: str | None = None
    allow_host: tuple[str, ...] = ()
    cors_origin: tuple[str, ...] = ()
    log_text: bool = False

    def __post_init__(self):
        if self.token is not None and not self.token.strip():  # a variable that was meant to be set
            raise ValueError("token and TFX_TRANSFORMER_TOKEN must not be empty")

    def with_environment(self) -> "AccessOptions":
        """With the token of the environment, if there is no other."""
        token = os.environ.get("TFX_TRANSFORMER_TOKEN") if self.token is None else self.token
        return replace(self, token=token)

    def at(self, address: str) -> "AccessOptions":
        """For a server that listens at an address: a page whose name turns into the address of this
        machine (DNS rebinding) must not call it."""
        if self.allow_host or address in LOCAL or address.startswith("127."):
            return replace(self, allow_host=(*LOCAL, address, *self.allow_host))
        return self


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


SAY_NOTHING = {"export", "exported", "run", "saved_model", "served"}  # names of folders


def name_folders(models: Sequence[str]) -> dict[str, Path]:
    """Folders by the names of their models; a folder alone gives its own name or its parent's."""
    if not models:
        raise ValueError("models must name at least one folder, as FOLDER or NAME=FOLDER")
    folders: dict[str, Path] = {}
    for model in models:
        name, folder = split(model)
        if not folder.is_dir():
            raise FileNotFoundError(f"models must name folders; there is no {folder}")
        if not name or set(name) & set("/:"):
            raise ValueError(f"a model's name must have no / and no :; got {name!r} of {folder}")
        if name in folders:
            raise ValueError(
                f"models must have different names; {folders[name]} and {folder} are both {name}: "
                "write NAME=FOLDER"
            )
        folders[name] = folder
    return folders


def split(model: str) -> tuple[str, Path]:
    """Name and folder; a name such as "served" or a version is not specific, its parent's is."""
    name, is_named, folder = model.partition("=")
    if is_named and not Path(model).exists():
        return name, Path(folder)
    path = Path(model)
    for part in (path.resolve(), *path.resolve().parents):
        if part.name and part.name not in SAY_NOTHING and not part.name.isdecimal():
            return part.name, path
    return "model", path
