"""A parent process that starts the server again when it crashes.

The parent imports no TensorFlow and holds the listening socket: while there is no child, clients
wait in its queue instead of being refused.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable

BACKLOG = 2048  # connections that wait to be accepted
ATTEMPTS = 5  # crashes before the server was ready for the first time, or again
MAX_DELAY = 30.0  # seconds
STABLE = 60.0  # seconds after which a crash is no longer one of a series
PARENT_DIED = 1  # PR_SET_PDEATHSIG


def listen(host: str, port: int) -> socket.socket:
    """A listening socket."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise OSError(f"host and port must be free; got {host}:{port}: {error}") from None


def supervise(delay: float = 0.5) -> Callable[[], None]:
    """Returns in the child process only; the parent ends the program when the child has ended.

    A child that crashes is replaced, after `delay` seconds, then twice as many and so on. A child
    that stops with an error before it was ready, or crashes five times, is not.

    Returns: a function that the child calls when it is ready.
    """
    child, is_stopping, crashes = 0, False, 0

    def forward(number, _) -> None:
        nonlocal is_stopping
        is_stopping = True
        if child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    while True:
        started = time.monotonic()
        reader, writer = os.pipe()
        # a signal must not come between this question, the fork and the assignment
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
        if is_stopping:
            sys.exit(0)
        parent, child = os.getpid(), os.fork()
        if not child:
            os.close(reader)
            return begin_child(parent, writer)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
        os.close(writer)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        child, was_ready = 0, os.read(reader, 1) == b"1"
        os.close(reader)
        if is_stopping:
            sys.exit(0 if code in (-signal.SIGTERM, -signal.SIGINT) else exit_code(code))
        if code == 0 or (code > 0 and not was_ready):
            sys.exit(code)
        crashes = 1 if was_ready and time.monotonic() - started > STABLE else crashes + 1
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        if not was_ready and crashes >= ATTEMPTS:
            print(f"the server crashed {crashes} times ({how}): giving up", file=sys.stderr)
            sys.exit(exit_code(code))
        pause = min(delay * 2 ** (crashes - 1), MAX_DELAY)
        print(f"the server crashed ({how}): starting it again in {pause:g} s", file=sys.stderr)
        end = time.monotonic() + pause
        while time.monotonic() < end:
            time.sleep(0.05)
            if is_stopping:
                sys.exit(0)


def begin_child(parent: int, writer: int) -> Callable[[], None]:
    """Own signals, and a process group of its own: Ctrl-C reaches it through the parent only."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
    os.setpgid(0, 0)
    if sys.platform.startswith("linux"):  # ends with its parent, also if that is killed
        ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(1)

    def ready() -> None:
        os.write(writer, b"1")
        os.close(writer)

    return ready


def exit_code(code: int) -> int:
    """As shells show it: 128 and the number of the signal."""
    return code if code >= 0 else 128 - code
