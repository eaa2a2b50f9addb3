"""The README's Python runs as it stands, block after block, as a reader would type it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKS = {
    path: re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), flags=re.S)
    for path in ("README.md", "CONTRIBUTING.md")
}


@pytest.mark.parametrize("path", [path for path, blocks in BLOCKS.items() if blocks])
def test_the_python_blocks_run(path, tmp_path):
    code = "\n".join(BLOCKS[path])
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-3000:]


def test_the_readme_has_python_blocks():
    assert BLOCKS["README.md"]


def test_files_and_commands_that_the_readme_names_exist():
    text = (ROOT / "README.md").read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for path in re.findall(r"\]\(((?!http)[^)#]+)\)", prose):
        assert (ROOT / path).exists(), f"README links to {path}, which is not there"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    for target in re.findall(r"make ([a-z-]+)", text):
        assert target in targets, f"README says make {target}, which the Makefile has not"
