"""Lines of files answered by worker processes of Ray, on one machine or on a cluster.

The files are read and written by the command, so only the model must be on all machines, at the
same path. (Ray Data would need every file there too, and a CPU beside the workers to cut it.)
"""

from collections import deque
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.serving.cluster import start_ray
from tfx_transformer.train.tasks.batch_files import CHUNK, Answers, Content, LineWork, read_chunks

RETRIES = 3  # of a worker that dies, and of the lines that it was at
WAITING = 2  # chunks for each worker, so that it has the next one at once


class Worker:
    """A process that loads the model for its first lines."""

    def __init__(self, work: LineWork):
        self.work, self.answer = work, None  # type: Any, Any

    def answer_lines(self, lines: list[str]) -> list[tuple[str, bool]]:
        if self.answer is None:
            start_tensorflow()
            self.answer = self.work.load()
        return self.answer(lines)


def answer_on_ray(work: LineWork, files: dict[Path, Content], workers: int) -> Answers:
    """The answers to all lines of all files, in order."""
    start_ray(workers)
    try:
        has_gpus = ray.cluster_resources().get("GPU", 0) >= workers
        options = {"num_cpus": 1, "num_gpus": int(has_gpus)}
        options |= {"max_restarts": RETRIES, "max_task_retries": RETRIES}
        create = ray.remote(Worker).options(**options, scheduling_strategy="SPREAD").remote
        actors: list[Any] = [create(work) for _ in range(workers)]
        waiting: deque = deque()
        for number, chunk in enumerate(read_chunks(files, CHUNK * work.batch_size)):
            if len(waiting) == WAITING * workers:
                yield from ray.get(waiting.popleft())
            waiting.append(actors[number % workers].answer_lines.remote(chunk))
        while waiting:
            yield from ray.get(waiting.popleft())
    except RayTaskError as error:
        raise error.cause from None  # without the traceback of the other process
    except RayActorError as error:
        raise ValueError(
            f"a worker of Ray died {RETRIES + 1} times, perhaps out of memory"
        ) from error
    finally:
        ray.shutdown()
