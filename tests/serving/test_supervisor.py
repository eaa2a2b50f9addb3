"""The parent process, with a child that answers every connection with its process id."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tfx_transformer
from tfx_transformer.serving.supervisor import listen

PROGRAM = """
import importlib.util, os, signal, sys, time
spec = importlib.util.spec_from_file_location("supervisor", sys.argv[1])
supervisor = importlib.util.module_from_spec(spec)
spec.loader.exec_module(supervisor)
listener = supervisor.listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
ready = supervisor.supervise(delay=0.01)
"""
ANSWER = """
ready()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
while True:
    connection, _ = listener.accept()
    connection.sendall(str(os.getpid()).encode())
    connection.close()
"""
CRASH = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def start():
    processes = []
    path = Path(tfx_transformer.__file__).parent / "serving/supervisor.py"

    def start(child, program=PROGRAM):
        process = subprocess.Popen(
            [sys.executable, "-c", program + child, path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        return process, int(process.stdout.readline())

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()  # without reading: a child that did not end keeps them open
        process.stderr.close()


def ask(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        answer = connection.makefile().read()
    assert answer.isdecimal() and int(answer) > 1
    return int(answer)


def ends(pid):
    limit = time.monotonic() + 10
    while time.monotonic() < limit:
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_a_killed_child_is_replaced_and_clients_wait(start):
    process, port = start(ANSWER)
    first = ask(port)
    assert first != process.pid
    for _ in range(3):
        os.kill(first, signal.SIGKILL)
        assert ends(first)
        second = ask(port)  # not refused
        assert second not in (first, process.pid)
        first = second


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_child_and_then_the_parent(start, number):
    child = ANSWER.replace("SIGTERM", number.name)
    process, port = start(child)
    pid = ask(port)
    process.send_signal(number)
    assert process.wait(10) == 0 and ends(pid)


def test_a_signal_to_a_child_that_is_not_ready_ends_both(start):
    process, _ = start("time.sleep(60)")
    time.sleep(0.2)
    process.terminate()
    assert process.wait(10) == 0


def test_a_signal_just_before_a_child_starts_is_not_lost(start):
    signaled = """
pipe = os.pipe
os.pipe = lambda: (os.kill(os.getpid(), signal.SIGTERM), pipe())[1]
ready ="""
    process, _ = start("time.sleep(60)", PROGRAM.replace("\nready =", signaled))
    assert process.wait(10) == 0


def test_an_error_before_the_child_is_ready_ends_the_parent_at_once(start):
    process, _ = start("sys.exit(3)")
    assert process.wait(10) == 3


def test_a_child_that_crashes_before_it_is_ready_is_given_up(start):
    process, _ = start(CRASH)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGKILL
    assert errors.count("starting it again") == 4
    assert "the server crashed 5 times (signal 9): giving up" in errors


def test_the_child_ends_with_a_killed_parent(start):
    process, port = start(ANSWER)
    pid = ask(port)
    process.kill()
    try:
        assert ends(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_ctrl_c_reaches_the_child_only_once(start):
    count = """
signals = []
signal.signal(signal.SIGINT, lambda *_: signals.append(1))
ready()
print("ready", flush=True)
while not signals:
    time.sleep(0.01)
time.sleep(0.3)
sys.exit(10 + len(signals))
"""
    process, _ = start(count)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(10) == 11


def test_a_port_in_use_is_an_error():
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match=f"must be free; got 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
