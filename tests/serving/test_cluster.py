import os

import pytest

pytest.importorskip("ray.exceptions")  # "ray" alone may be any folder of this name
import ray  # noqa: E402

from tfx_transformer.serving.cluster import start_ray  # noqa: E402


@pytest.fixture
def started(monkeypatch):
    """The arguments with which Ray is started, on a cluster of 3 CPUs."""
    calls = []
    monkeypatch.setattr(ray, "init", lambda *names, **options: calls.append((*names, options)))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 3.0})
    return calls


def test_ray_is_started_here_with_the_cpus_that_are_needed(started, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for needed, counted in ((0.5, 1), (2.5, 3)):
        monkeypatch.setattr(os, "cpu_count", lambda: 1)
        start_ray(needed)
        address, options = started.pop()
        assert address == "local" and options["num_cpus"] == counted


def test_a_cluster_is_used_as_it_is(started, monkeypatch, capsys):
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    start_ray(3)
    assert capsys.readouterr().err == ""
    start_ray(4)
    assert capsys.readouterr().err == "waiting for 4 CPUs; the cluster has 3\n"
    for address, options in started:
        assert address == "head:6379" and "num_cpus" not in options
