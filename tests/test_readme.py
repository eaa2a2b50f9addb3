"""What the pages say runs as it stands, as a reader would type it."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tfx_transformer.train import cli

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in ROOT.glob("docs/*.md"))]
TEXTS = {page: (ROOT / page).read_text() for page in PAGES}
BLOCKS = {
    page: re.findall(r"```python\n(.*?)```", text, flags=re.S) for page, text in TEXTS.items()
}


def commands(text):
    """The arguments of each command in the blocks for a shell."""
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.S):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["tfx-transformer"]:
                words = words[: words.index("<")] if "<" in words else words
                yield [word for word in words[1:] if word != "…"]


@pytest.mark.parametrize("path", [path for path, blocks in BLOCKS.items() if blocks])
def test_the_python_blocks_run(path, tmp_path):
    code = "\n".join(BLOCKS[path])
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr[-3000:]


def test_the_readme_has_python_blocks():
    assert BLOCKS["README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_files_and_targets_that_a_page_names_exist(page):
    prose = re.sub(r"```.*?```", "", TEXTS[page], flags=re.S)
    for path in re.findall(r"\]\(((?!http)[^)#]+)\)", prose):
        assert (ROOT / page).parent.joinpath(path).exists(), f"{page} links to {path}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    for target in re.findall(r"`make ([a-z-]+)", TEXTS[page]):
        assert target in targets, f"{page} says make {target}, which the Makefile has not"


def test_the_command_line_takes_every_command_of_every_page(monkeypatch):
    called = []

    def idle(function):
        return functools.wraps(function)(lambda *_, **__: called.append(function.__name__))

    train_command = cli.train_command
    monkeypatch.setattr(cli, "COMMANDS", {name: idle(f) for name, f in cli.COMMANDS.items()})
    monkeypatch.setattr(cli, "train_command", lambda name: idle(train_command(name)))
    found = [arguments for text in TEXTS.values() for arguments in commands(text)]
    for arguments in found:
        cli.main(arguments)
    assert len(called) == len(found) > 30 and {"train", "compare", "plot"} <= set(called)
