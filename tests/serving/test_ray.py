"""The application of Ray Serve; a real Ray on this machine is marked `serving`."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings

import pytest

from tfx_transformer.export import export
from tfx_transformer.serving.options import AccessOptions, RayOptions, ServingOptions

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Ray, about Pydantic
    pytest.importorskip("ray.serve")
    from tfx_transformer.serving.ray import app, build

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")


def deployment(application):
    return application._bound_deployment


def test_replicas_and_limits_are_those_of_the_options(tmp_path):
    made = deployment(
        build({"a": tmp_path}, ServingOptions(max_waiting=7), RayOptions(3, num_cpus=0.5))
    )
    assert made.num_replicas == 3 and made.ray_actor_options["num_cpus"] == 0.5
    assert made.max_ongoing_requests == made.max_queued_requests == 7
    assert made.init_args[0] == {"a": tmp_path}


def test_the_number_of_replicas_follows_the_load(tmp_path):
    for options, target in ((RayOptions(2, 5), 32), (RayOptions(2, 5, target_requests=4), 4)):
        scaling = deployment(
            build({"a": tmp_path}, ServingOptions(), options)
        )._deployment_config.autoscaling_config
        assert (scaling.min_replicas, scaling.max_replicas) == (2, 5)
        assert scaling.target_ongoing_requests == target


def test_arguments_of_serve_run_are_strings(tmp_path, monkeypatch):
    monkeypatch.setenv("TFX_TRANSFORMER_TOKEN", "secret")
    (tmp_path / "one").mkdir()
    models = f"{tmp_path / 'one'},other={tmp_path}"
    made = deployment(app({"models": models, "replicas": "2", "deadline": "9", "poll": "0"}))
    folders, options, _, access = made.init_args
    assert folders == {"one": tmp_path / "one", "other": tmp_path}
    assert made.num_replicas == 2 and options == ServingOptions(deadline=9.0, poll=0.0)
    assert access == AccessOptions("secret")


def test_bad_arguments_of_serve_run_are_named(tmp_path):
    with pytest.raises(ValueError, match="unknown argument 'replica'; known: .*replicas"):
        app({"models": str(tmp_path), "replica": "2"})
    with pytest.raises(ValueError, match="models must name at least one folder"):
        app({})
    with pytest.raises(ValueError, match="replicas"):
        app({"models": str(tmp_path), "replicas": "many"})


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def replicas(command):
    """The ids of the replicas of a command: processes of Ray below it."""
    table = subprocess.check_output(["ps", "-eo", "pid=,ppid=,args="], text=True)
    rows = [line.split(None, 2) for line in table.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}

    def is_below(pid):
        return pid == command or (pid in parents and is_below(parents[pid]))

    found = [int(pid) for pid, _, name in rows if name.startswith("ray::ServeReplica")]
    return {pid for pid in found if is_below(pid)}


class Clients:
    """Threads that send requests one after the other, and record when and how each ended."""

    def __init__(self, port, count=6):
        self.port, self.records, self.stopped = port, [], threading.Event()
        self.threads = [threading.Thread(target=self.run) for _ in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def run(self):
        while not self.stopped.is_set():
            start = time.monotonic()
            self.records.append((start, *self.request(), time.monotonic()))

    def request(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            body = json.dumps({"instances": [{"text": "red cat"}]})
            connection.request("POST", "/v1/models/animals:predict", body)
            response = connection.getresponse()
            return response.status, response.read()
        except OSError as error:
            return 0, str(error)
        finally:
            connection.close()


def wait_for(condition, process, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < end, process.args
        time.sleep(0.2)


@pytest.mark.serving
def test_when_a_replica_dies_only_its_requests_fail_and_another_takes_its_place(
    translator, tmp_path
):
    export(translator, tmp_path / "served")
    port, log = free_port(), tmp_path / "log"
    model = f"animals={tmp_path / 'served'}"
    options = ["--engine", "ray", "--replicas", "2", "--port", str(port), "--max-batch-size", "4"]
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "serve", model, *options]
    with log.open("w") as file, subprocess.Popen(command, stderr=file) as process:
        try:
            wait_for(lambda: "ready: http://127.0.0.1" in log.read_text(), process)
            victim = min(replicas(process.pid))
            with Clients(port) as clients:
                wait_for(lambda: len(clients.records) > 50, process)
                killed_at = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                wait_for(lambda: len(replicas(process.pid) - {victim}) == 2, process)
                time.sleep(20)  # the new replica loads its model and answers
        finally:
            process.terminate()
        assert process.wait(timeout=120) == 0, log.read_text()[-3000:]
        assert not replicas(process.pid)
    assert sum(start > killed_at for start, *_ in clients.records) > 100
    failed = [record for record in clients.records if record[1] != 200]
    for start, status, answer, end in failed:
        assert start < killed_at < end, (start - killed_at, status, answer)
    assert len(failed) <= len(clients.threads)  # those in flight
    answers = [json.loads(answer) for _, status, answer, _ in clients.records if status == 200]
    assert {answer["predictions"][0]["text"] for answer in answers} == {translator("red cat")}
