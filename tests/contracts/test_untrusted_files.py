"""No damaged or hostile file crashes a reader, takes much memory, or ends in an unclear error."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz_untrusted_files.py")


@pytest.mark.parametrize("count", [200, pytest.param(5000, marks=pytest.mark.slow)])
def test_mutated_files_are_read_or_refused_in_one_line(count):
    command = [sys.executable, "-X", "faulthandler", str(SCRIPT), str(count), str(count)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]
    assert int(result.stdout.splitlines()[-1].split()[0]) > 10 * count  # files
