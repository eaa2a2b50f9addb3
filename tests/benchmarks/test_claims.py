"""The measurement of recall runs; `--quick` makes it a few steps long."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # tracing of many models takes a minute
FOLDER = Path(__file__).parents[2] / "benchmarks/claims"


def run(script, *arguments):
    command = [sys.executable, FOLDER / f"{script}.py", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout


@pytest.mark.parametrize(
    "script, what, rows",
    [
        ("recall", "accuracy", 5),
        ("recall", "time", 5),
    ],
)
def test_each_model_has_a_row_and_a_line(script, what, rows, tmp_path):
    picture = tmp_path / "picture.png"
    lines = run(script, what, "--quick", "--picture", picture).splitlines()
    assert len([line for line in lines if line.startswith("| ")]) == rows + 1
    assert picture.stat().st_size > 3000
