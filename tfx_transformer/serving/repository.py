"""Repository: the served models by name, each in its newest version that works."""

import gc
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfx_transformer.export import is_export
from tfx_transformer.export import load as load_export
from tfx_transformer.serving.errors import NotFound, Unavailable
from tfx_transformer.serving.model import Computed, ServedModel
from tfx_transformer.serving.options import ServingOptions

LABELS = ("stable", "latest")  # both are the served version
LOG_SECONDS = 5.0  # between two lines about the warm-up
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VersionStatus:
    """The state of one version of a model, in the words of TensorFlow Serving."""

    version: int
    state: str  # START, LOADING, AVAILABLE, UNLOADING or END
    error: str = ""


@dataclass
class Entry:
    """A name, its folder, and what is known about its versions."""

    name: str
    folder: Path
    model: ServedModel | None = None
    statuses: dict[int, VersionStatus] = field(default_factory=dict)
    failed: dict[int, Any] = field(default_factory=dict)  # the files of versions that failed
    is_tried: bool = False  # all versions, or the newest that can be loaded

    def set(self, version: int, state: str, error: str = "") -> None:
        self.statuses[version] = VersionStatus(version, state, error)

    def set_freed(self, version: int) -> None:
        if self.statuses[version].state == "UNLOADING":  # and was not loaded again
            self.set(version, "END")


class Repository:
    """Loads models in the background, looks for new versions, and exchanges them.

    A folder with sub-folders whose names are numbers has versions, and the newest that can be
    loaded is served; any other folder is version 1. A new version is loaded and warmed up beside
    the old one. The old one answers the requests that already have it, and is then freed, but for
    its optimized graphs, some 10 MB for each signature, which TensorFlow keeps.

    Args:
        folders: by the names of the models.
        options: of the server.
        load: folder → a pipeline or a loaded export.
        observer: called with a `Computed` after each computation.
    """

    def __init__(
        self,
        folders: dict[str, Path],
        options: ServingOptions | None = None,
        load: Callable[[Path], Any] = load_export,
        observer: Callable[[Computed], None] | None = None,
    ):
        for name, folder in folders.items():
            if not Path(folder).is_dir():
                raise ValueError(f"the folder of {name} must exist; got {folder}")
        self.options, self.observer = options or ServingOptions(), observer
        self._load = load
        self._entries = {name: Entry(name, Path(folder)) for name, folder in folders.items()}
        self._stop, self._ready = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="repository", daemon=True)

    def start(self) -> None:
        """Loads all models in the background; see `is_ready` and `wait`."""
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until all models are ready → whether they are."""
        return self._ready.wait(timeout)

    @property
    def is_ready(self) -> bool:
        """Whether every model is loaded and warmed up."""
        return not self._stop.is_set() and all(entry.model for entry in self._entries.values())

    def names(self) -> list[str]:
        return list(self._entries)

    def get(self, name: str, version: int | None = None, label: str | None = None) -> ServedModel:
        """A model that answers requests, in the given version or the newest."""
        model = self._entry(name).model
        if self._stop.is_set():
            raise Unavailable("the server is being stopped")
        if label is not None and label not in LABELS:
            raise NotFound(f"{name} has no version with the label {label}")
        if model is None:
            raise Unavailable(f"{name} is not loaded")
        if version is not None and version != model.version:
            raise NotFound(f"version {version} of {name} is not served; {model.version} is")
        return model

    def statuses(self, name: str) -> list[VersionStatus]:
        """The states of all known versions, newest first."""
        statuses = dict(self._entry(name).statuses)
        return [statuses[version] for version in sorted(statuses, reverse=True)]

    def failures(self) -> list[str]:
        """What is wrong with models of which no version could be loaded."""
        return [
            f"{name} cannot be served: {self.statuses(name)[0].error}"
            for name, entry in self._entries.items()
            if entry.is_tried and entry.model is None and entry.failed
        ]

    def close(self) -> None:
        """Refuses new requests, waits for accepted ones, and ends."""
        self._stop.set()
        for entry in self._entries.values():
            if entry.model is not None:
                entry.set(entry.model.version, "UNLOADING")
                entry.model.close()
                entry.set(entry.model.version, "END")
        if self._thread.is_alive():
            self._thread.join(self.options.deadline)

    def poll(self) -> None:
        """Looks for versions that appeared, changed or went away, and loads the newest."""
        for entry in self._entries.values():
            try:
                if not self._stop.is_set():
                    self._update(entry)
                    entry.is_tried = True
            except OSError as error:  # a folder that cannot be read now
                log.error("%s: %s", entry.name, error)
        if self.is_ready:
            self._ready.set()

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            raise NotFound(f"there is no model {name}")
        return self._entries[name]

    def _run(self) -> None:
        self.poll()
        while self.options.poll and not self._stop.wait(self.options.poll):
            self.poll()

    def _update(self, entry: Entry) -> None:
        """Serves the newest version that can be loaded."""
        versions = find_versions(entry.folder)
        current = entry.model.version if entry.model else None
        if entry.model and entry.model.folder != entry.folder and versions == {1: entry.folder}:
            versions = {}  # all were deleted
        for version in sorted(versions, reverse=True):
            if version == current:
                return
            files = list_files(versions[version])
            if entry.failed.get(version) == files:
                continue
            model = self._try(entry, version, versions[version])
            if model is None:
                entry.failed[version] = files
            if self._stop.is_set():
                return
            if model is not None:
                self._exchange(entry, model)
                return
        if entry.model and entry.model.folder != entry.folder and entry.folder.is_dir():
            self._exchange(entry, None)

    def _try(self, entry: Entry, version: int, folder: Path) -> ServedModel | None:
        """A loaded version, ready to answer; None if that failed."""
        title = f"{entry.name}/{version}"

        shown = time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal shown
            if self._stop.is_set():
                raise Unavailable("the server is being stopped")
            now = time.monotonic()
            if done in (0, total) or now >= shown + LOG_SECONDS:
                shown = now
                log.info("%s: warming up %d of %d shapes", title, done, total)

        entry.set(version, "LOADING")
        log.info("%s: loading %s", title, folder)
        try:
            predictor = self._load(folder)
            model = ServedModel(
                predictor, entry.name, version, folder, self.options, LABELS[0], self.observer
            )
            if self.options.warm_up:
                model.warm_up(progress)
        except Exception as error:  # whatever a broken folder causes, the others are served
            message = f"{type(error).__name__}: {error}"
            entry.set(version, "END", message)
            if not self._stop.is_set():
                log.error("%s: cannot be served: %s", title, message)
            return None
        return model

    def _exchange(self, entry: Entry, model: ServedModel | None) -> None:
        """Serves another version, or none. The old one is freed with its last request."""
        old, entry.model = entry.model, model
        if model is not None:
            entry.set(model.version, "AVAILABLE")
            log.info("%s/%d: ready", entry.name, model.version)
        if old is not None:
            entry.set(old.version, "UNLOADING")
            weakref.finalize(old, entry.set_freed, old.version)
            log.info("%s/%d: no longer served", entry.name, old.version)
            del old
            gc.collect()  # functions of TensorFlow refer to each other


def find_versions(folder: Path) -> dict[int, Path]:
    """The folders of all versions."""
    if not folder.is_dir():
        return {}
    if is_export(folder) or (folder / "recipe.json").exists():
        return {1: folder}
    numbered = {
        int(path.name): path
        for path in folder.iterdir()
        if path.name.isascii() and path.name.isdecimal() and path.is_dir()
    }
    return numbered or {1: folder}


def list_files(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of all files: a failed version is tried again when they change."""
    files = []
    for path in sorted(folder.rglob("*")):
        try:
            state = path.stat()
        except OSError:  # removed in between
            continue
        files.append((str(path.relative_to(folder)), state.st_size, state.st_mtime_ns))
    return files


__all__ = ["Repository", "VersionStatus"]
