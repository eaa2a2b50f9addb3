"""Several processes are watched, stopped and started again; here without TensorFlow."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tfx_transformer.train.launch.local import (
    Activity,
    LaunchOptions,
    free_addresses,
    launch,
    own_part,
    process_state,
    visible_gpus,
)

WORKER = """
import json, os, pathlib, signal, sys, time
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
here = pathlib.Path(sys.argv[1])
starts = here / f"starts{index}"
starts.write_text((starts.read_text() if starts.exists() else "") + "+")
count = len(starts.read_text())
print("worker", index, "start", count, flush=True)
def wait():
    end = time.time() + 60
    while time.time() < end:
        time.sleep(0.05)
"""


def run(tmp_path, code, **options):
    """The exit code, and how often each of two workers has started."""
    options = LaunchOptions(**{"timeout": 20.0} | options)
    command = [sys.executable, "-c", WORKER + code, str(tmp_path)]
    exit_code = launch(command, tmp_path / "run", options)
    return exit_code, [len((tmp_path / f"starts{i}").read_text()) for i in range(options.workers)]


def test_the_workers_know_each_other_and_have_logs_and_cores_of_their_own(tmp_path, capfd):
    code = 'print(os.environ["TF_CONFIG"], sorted(os.sched_getaffinity(0)))'
    assert run(tmp_path, code) == (0, [1, 1])
    logs = [(tmp_path / f"run/workers/{i}.log").read_text() for i in range(2)]
    first, second = (log.splitlines()[-1].partition("} ") for log in logs)
    assert first[0].replace('"index": 0', '"index": 1') == second[0]
    if len(os.sched_getaffinity(0)) > 1:
        assert first[2] != second[2]
    assert "worker 0 start 1" in capfd.readouterr().out
    assert "worker 1 start 1" in logs[1]


def test_all_start_again_if_one_is_killed_and_not_more_often_than_allowed(tmp_path, capfd):
    once = (
        "if index == 1 and count == 1: os.kill(os.getpid(), signal.SIGKILL)\nif count == 1: wait()"
    )
    assert run(tmp_path, once) == (0, [2, 2])
    assert "worker 1 was killed by SIGKILL; 3 restarts are left" in capfd.readouterr().err
    always = "os.kill(os.getpid(), signal.SIGKILL) if index == 0 else wait()"
    assert run(tmp_path, always, restarts=2) == (1, [5, 5])


def test_a_frozen_worker_is_noticed_within_the_timeout(tmp_path, capfd):
    code = (
        "if index == 1 and count == 1: os.kill(os.getpid(), signal.SIGSTOP)\nif count == 1: wait()"
    )
    start = time.monotonic()
    assert run(tmp_path, code, timeout=1.0) == (0, [2, 2])
    assert time.monotonic() - start < 20
    assert "worker 1 was frozen for 1 s" in capfd.readouterr().err


def test_workers_that_do_nothing_are_noticed():
    process = subprocess.Popen(["sleep", "60"])
    try:
        activity = Activity([process.pid], timeout=0.3)
        time.sleep(0.1)
        assert activity.problem() == ""
        time.sleep(0.4)
        assert activity.problem() == "no worker did anything for 0.3 s"
    finally:
        process.kill()
        process.wait()
    assert process_state(process.pid) == ("X", 0)


def test_the_time_in_which_all_processes_are_stopped_does_not_count(monkeypatch):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    activity = Activity([os.getpid()], timeout=3.0)
    monkeypatch.setattr("tfx_transformer.train.launch.local.process_state", lambda pid: ("T", 7))
    found = []
    for seconds in (0.2, 500.0, 0.9, 0.9, 0.9):
        now += seconds
        found.append(activity.problem())
    assert found == ["", "", "", "", "worker 0 was frozen for 3 s"]


def test_an_error_ends_all_without_a_restart_and_shows_the_log(tmp_path, capfd):
    code = "sys.exit('bad option') if index == 1 else wait()"
    assert run(tmp_path, code) == (1, [1, 1])
    assert "worker 1:\n" in (shown := capfd.readouterr().err) and "bad option" in shown


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_and_the_workers_have_time_to_stop(tmp_path, number):
    code = f"""
def stop(number, frame):
    time.sleep(0.3)  # a checkpoint
    (here / f"stopped{{index}}").touch()
    sys.exit(128 + number)
signal.signal({int(number)}, stop)
(here / f"ready{{index}}").touch()
wait()
"""

    def stop():
        while len(list(tmp_path.glob("ready?"))) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=stop).start()
    assert run(tmp_path, code) == (128 + number, [1, 1])
    assert len(list(tmp_path.glob("stopped?"))) == 2


def test_a_worker_that_does_not_stop_is_killed(tmp_path):
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n(here / f'ready{index}').touch()\nwait()"

    def stop():
        while len(list(tmp_path.glob("ready?"))) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop).start()
    assert run(tmp_path, code, timeout=0.5) == (128 + signal.SIGTERM, [1, 1])


def test_cores_and_gpus_are_divided(monkeypatch):
    assert [own_part([0, 1, 2, 3], i, 2) for i in range(2)] == [[0, 1], [2, 3]]
    assert [own_part([5], i, 2) for i in range(2)] == [[5], [5]]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert visible_gpus() == ["0", "2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert visible_gpus() == []


def test_every_worker_has_a_port_of_its_own_and_a_taken_one_is_replaced(tmp_path, capfd):
    assert len(set(free_addresses(20))) == 20
    code = "if count == 1: sys.exit('UnknownError: Could not start gRPC server')"
    assert run(tmp_path, code) == (0, [2, 2])
    assert "another process has taken a port; 3 restarts are left" in capfd.readouterr().err


def test_options_out_of_range_are_refused():
    for options in ({"workers": 0}, {"devices_per_worker": 0}, {"restarts": -1}, {"timeout": 0.0}):
        with pytest.raises(ValueError, match="--"):
            LaunchOptions(**options)
