"""Real Ray on this machine, with two workers."""

import gzip
import os
import signal
import subprocess
import sys
import time

import pytest

from tfx_transformer.checks import is_installed
from tfx_transformer.train.cli import main

pytestmark = pytest.mark.serving
if not is_installed("ray"):
    pytest.skip("ray is not installed", allow_module_level=True)


def test_files_are_translated_in_order_and_a_killed_worker_is_replaced(run, tmp_path):
    names = ["a.txt", "b.txt.gz", "c.txt", "empty.txt"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("red cat\n\nbig old dog\n")
    with gzip.open(tmp_path / "in/b.txt.gz", "wb") as file:
        file.write(b"".join(b"red cat %d\nold\n" % i for i in range(300)))
    (tmp_path / "in/c.txt").write_text("blue dog\n" * 100)
    (tmp_path / "in/empty.txt").write_text("")
    command = ["translate", str(run[0]), "--input", str(tmp_path / "in/*"), "--batch-size", "2"]
    main([*command, "--output", str(tmp_path / "local")])
    ray = [*command, "--output", str(tmp_path / "ray"), "--engine", "ray", "--workers", "2"]
    start = [sys.executable, "-m", "tfx_transformer.train.cli", *ray]
    with subprocess.Popen(start, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "ray/a.txt").exists():  # then the workers are at the next chunks
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        os.kill(worker_ids(process.pid)[0], signal.SIGKILL)
        errors = process.communicate(timeout=300)[1]
        assert process.returncode == 0, errors
    for name in names:
        expected = (tmp_path / "local" / name).read_bytes()
        assert (tmp_path / "ray" / name).read_bytes() == expected


def worker_ids(command):
    """The processes of Ray that translate, below the command."""
    table = subprocess.check_output(["ps", "-eo", "pid=,ppid=,args="], text=True)
    rows = [line.split(None, 2) for line in table.splitlines()]
    parents = {int(pid): int(parent) for pid, parent, _ in rows}

    def is_below(pid):
        return pid == command or (pid in parents and is_below(parents[pid]))

    found = [int(pid) for pid, _, name in rows if name.startswith("ray::Worker")]
    return [pid for pid in found if is_below(pid)]
