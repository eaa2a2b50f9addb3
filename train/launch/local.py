"""`tfx-transformer launch`: a run by several processes of this machine. Imports no TensorFlow.

The workers find each other by `TF_CONFIG`. If one dies or is frozen, the others wait for it and
ignore all signals but SIGKILL: all are killed, and start again from the last checkpoint.
"""

import contextlib
import ctypes
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfx_transformer.checks import check_above_zero, check_positive, check_whole

POLL = 0.2  # seconds between two looks at the workers
LONGEST = 1.0  # counted as the time between two: more means that this process was stopped itself
TAKEN = "Could not start gRPC server"  # the error of a worker whose port is in use
GRACE = 5.0  # seconds in which the others may end after the first one
SET_DEATH_SIGNAL = 1  # option of prctl: the signal that a process gets when its parent dies


@dataclass(frozen=True)
class LaunchOptions:
    """How several processes train together."""

    engine: Literal["local", "ray"] = "local"
    """local starts processes on this machine; ray uses Ray Train (pip install ray[train]), on the
    cluster in RAY_ADDRESS or on this machine."""
    workers: int = 2
    """Processes. Each gets an equal part of the cores, or GPUs of its own."""
    devices_per_worker: int = 1
    """GPUs of each process, if the machine has any."""
    restarts: int = 3
    """How often all processes may start again after one was killed or frozen."""
    timeout: float = 60.0
    """Seconds after which a frozen process is killed, and all of them if none does anything; also
    the time that they have to stop with a checkpoint after Ctrl-C."""

    def __post_init__(self):
        count, devices = self.workers, self.devices_per_worker
        check_positive(**{"--workers": count, "--devices-per-worker": devices})
        check_whole(**{"--restarts": self.restarts})
        check_above_zero(**{"--timeout": self.timeout})


def launch(command: list[str], folder: Path, options: LaunchOptions) -> int:
    """Runs a command in each worker, with logs in folder/workers → the exit code."""
    with Signals() as signals:
        for left in range(options.restarts, -1, -1):
            group = Group(command, folder / "workers", options)
            try:
                reason = group.wait(signals)
            finally:
                group.kill()
            if not reason:
                return group.exit_code(signals.number)
            print(f"launch: {reason}; {left} restarts are left", file=sys.stderr, flush=True)
    return 1


class Signals:
    """Remembers the first Ctrl-C or SIGTERM while it is entered; the second one raises."""

    number = 0

    def __enter__(self) -> "Signals":
        numbers = (signal.SIGINT, signal.SIGTERM)
        self.replaced = {number: signal.signal(number, self.handle) for number in numbers}
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self.replaced.items():
            signal.signal(number, handler)

    def handle(self, number: int, frame=None) -> None:
        if self.number:
            raise KeyboardInterrupt("stopped without a checkpoint")
        self.number = number


class Group:
    """The processes of one start; the first one, the chief, is also shown on the terminal.

    Args:
        command: of each process.
        logs: folder of the files `<worker>.log`.
        options: of the launch.
    """

    def __init__(self, command: list[str], logs: Path, options: LaunchOptions):
        self.command, self.logs, self.options = command, logs, options
        logs.mkdir(parents=True, exist_ok=True)
        addresses = free_addresses(options.workers)
        self.processes: list[subprocess.Popen] = []
        for index in range(options.workers):
            task = {"type": "worker", "index": index}
            config = {"cluster": {"worker": addresses}, "task": task}
            self.processes.append(self._start(index, {"TF_CONFIG": json.dumps(config)}))

    def _start(self, index: int, variables: dict[str, str]) -> subprocess.Popen:
        cores = own_part(sorted(os.sched_getaffinity(0)), index, self.options.workers)
        if gpus := visible_gpus():
            size = self.options.devices_per_worker
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[index * size : (index + 1) * size])
        set_option = ctypes.CDLL(None).prctl

        def prepare():  # in the new process
            set_option(SET_DEATH_SIGNAL, signal.SIGKILL)
            os.sched_setaffinity(0, cores)

        log = (self.logs / f"{index}.log").open("ab", buffering=0)
        log.write(f"$ {shlex.join(self.command)}\n".encode())
        process = subprocess.Popen(
            self.command,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=log if index else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is passed on by this process, once
            preexec_fn=prepare,
        )
        if index == 0:
            self.shown = threading.Thread(target=show, args=(process.stdout, log), daemon=True)
            self.shown.start()
        else:
            log.close()
        return process

    def codes(self) -> list[int | None]:
        """The exit codes; negative after a signal, None while a worker runs."""
        return [process.poll() for process in self.processes]

    def wait(self, signals: Signals) -> str:
        """Waits until the run has ended → why it must start again, or "" if it must not."""
        activity = Activity([process.pid for process in self.processes], self.options.timeout)
        while not signals.number:
            time.sleep(POLL)
            for index, code in enumerate(self.codes()):
                if code is not None and code < 0:
                    return f"worker {index} was killed by {signal.Signals(-code).name}"
            ended = [code for code in self.codes() if code is not None]
            if ended:  # by success, by an error, or by a signal to a worker
                self._wait_for_all(self.options.timeout if max(ended) > 128 else GRACE)
                is_taken = any(TAKEN in self.last_lines(i) for i in range(len(self.processes)))
                return "another process has taken a port" if max(ended) and is_taken else ""
            if reason := activity.problem():
                return reason
        for process in self.processes:
            process.send_signal(signals.number)
        self._wait_for_all(self.options.timeout)
        return ""

    def _wait_for_all(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while None in self.codes() and time.monotonic() < end:
            time.sleep(POLL)

    def exit_code(self, stopped: int) -> int:
        """0 if the chief has finished; otherwise that of an error, or of the signal."""
        chief, *others = self.codes()
        if chief == 0:
            return 0
        for index, code in enumerate(others, 1):
            if code is not None and 0 < code < 128:
                print(f"worker {index}:\n{self.last_lines(index)}", file=sys.stderr)
        errors = [code for code in (chief, *others) if code is not None and code > 0]
        return errors[0] if errors else 128 + (stopped or signal.SIGKILL)

    def last_lines(self, index: int) -> str:
        """Of the log of a worker."""
        lines = (self.logs / f"{index}.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-5:])

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.shown.join(GRACE)


class Activity:
    """What /proc says about processes: whether one is frozen, or all of them do nothing.

    Args:
        pids: of the processes.
        timeout: seconds until that is a problem.
    """

    def __init__(self, pids: list[int], timeout: float):
        self.pids, self.timeout = pids, timeout
        self.clock, self.looked = 0.0, time.monotonic()
        self.frozen: dict[int, float] = {}  # since when
        self.ticks, self.active = -1, 0.0

    def problem(self) -> str:
        """The problem that has lasted too long; "" if there is none."""
        before, self.looked = self.looked, time.monotonic()
        self.clock += min(self.looked - before, LONGEST)
        now, total = self.clock, 0
        for index, pid in enumerate(self.pids):
            state, ticks = process_state(pid)
            total += ticks
            if state in "TtD":  # stopped, or waiting for a disk
                self.frozen.setdefault(index, now)
            else:
                self.frozen.pop(index, None)
        if total != self.ticks:
            self.ticks, self.active = total, now
        for index, since in self.frozen.items():
            if now - since > self.timeout:
                return f"worker {index} was frozen for {self.timeout:g} s"
        if now - self.active > self.timeout:
            return f"no worker did anything for {self.timeout:g} s"
        return ""


def process_state(pid: int) -> tuple[str, int]:
    """The state of a process and its CPU time in ticks, from /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "X", 0
    return fields[0], int(fields[11]) + int(fields[12])


def own_part(items: list[int], index: int, count: int) -> list[int]:
    """An equal part of the items; all of them if there are fewer than parts."""
    size = len(items) // count
    return items[index * size : (index + 1) * size] if size else items


def visible_gpus() -> list[str]:
    """The numbers of the GPUs that this process may use."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [x for x in named.split(",") if x not in ("", "-1")]
    return sorted(path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))


def free_addresses(count: int) -> list[str]:
    """Addresses of this machine whose ports nobody uses at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return ["{}:{}".format(*one.getsockname()) for one in sockets]


def show(lines, log) -> None:
    """Copies the chief's output to its log and to standard output."""
    with lines, log:
        for line in lines:
            log.write(line)
            sys.stdout.write(line.decode(errors="replace"))
            sys.stdout.flush()
