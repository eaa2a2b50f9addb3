"""The commands and Python blocks of README, CONTRIBUTING and docs are valid as they are written."""

import functools
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tfx_transformer.models import MODELS
from tfx_transformer.train import cli
from tfx_transformer.train.launch import local, ray_train
from tfx_transformer.train.parsing import parse_train

ROOT = Path(__file__).parents[1]
DOCS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/**/*.md"))
PAGES = ["README.md", "CONTRIBUTING.md", *DOCS]
TEXTS = {page: (ROOT / page).read_text() for page in PAGES}
BLOCKS = {
    page: re.findall(r"```python\n(.*?)```", text, flags=re.S) for page, text in TEXTS.items()
}


def prose(text):
    """A page without its code blocks."""
    return re.sub(r"```.*?```", "", text, flags=re.S)


def shell_lines(text):
    """The lines of the shell blocks, and the commands with arguments in running text."""
    for block in re.findall(r"```sh\n(.*?)```", text, flags=re.S):
        yield from block.replace("\\\n", " ").splitlines()
    for line in re.findall(r"`(tfx-transformer [^`]+)`", prose(text)):
        if len(line.split()) > 2 or line.split()[1] in ("layers", "list"):
            yield line.replace("\n", " ")


def commands(text):
    """The arguments of each tfx-transformer command of a page."""
    for line in shell_lines(text):
        words = shlex.split(line, comments=True)
        if words[:1] == ["tfx-transformer"] and "--help" not in words:
            words = words[: words.index("<")] if "<" in words else words
            yield [word for word in words[1:] if word != "…"]


PREPARE = """
from tfx_transformer.runtime import import_tensorflow
import_tensorflow()
import tensorflow as tf
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
"""  # graphs that run once are not optimized, as in the tests


@pytest.mark.docs
def test_the_python_blocks_run(tmp_path):
    """In one process, which imports TensorFlow only once; each page has names of its own."""
    code = PREPARE
    for page in PAGES:
        block = "\n".join(BLOCKS[page])
        code += f"exec(compile({block!r}, {page!r}, 'exec'), {{}})\n"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=1800
    )
    assert result.returncode == 0, result.stderr[-3000:]


def test_the_readme_has_python_blocks():
    assert BLOCKS["README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_files_and_targets_that_a_page_names_exist(page):
    for path in re.findall(r"\]\(((?!http)[^)#]+)\)", prose(TEXTS[page])):
        assert (ROOT / page).parent.joinpath(path).exists(), f"{page} links to {path}"
    for path in re.findall(r"python (benchmarks/\w+\.py)", TEXTS[page]):
        assert (ROOT / path).exists(), f"{page} runs {path}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
    for target in re.findall(r"`make ([a-z-]+)", TEXTS[page]):
        assert target in targets, f"{page} names make {target}, which is not in the Makefile"


def test_the_command_line_accepts_every_command_of_every_page(monkeypatch):
    called = []

    def idle(name, function):
        return functools.wraps(function)(lambda *_, **__: called.append(name))

    idle_commands = {name: idle(name, function) for name, function in cli.COMMANDS.items()}
    monkeypatch.setattr(cli, "COMMANDS", idle_commands)
    for module in (local, ray_train):
        monkeypatch.setattr(module, "launch", lambda *_: called.append("launch"))
    found = [arguments for text in TEXTS.values() for arguments in commands(text)]
    for name, *arguments in found:
        if name == "train" and arguments[0] == "--resume":
            assert len(arguments) == 2
            called.append(name)
        elif name == "train":
            recipe, folder = parse_train(arguments)
            assert recipe.steps and folder
            called.append(name)
        elif name == "launch":
            with pytest.raises(SystemExit):
                cli.main([name, *arguments])
        else:
            cli.main([name, *arguments])
    assert len(called) == len(found) > 40
    assert {"train", "compare", "evaluate", "layers", "list", "plot"} <= set(called)


def test_the_readme_describes_every_model():
    (table,) = re.findall(r"## Models\n(.*?)\n## ", TEXTS["README.md"], flags=re.S)
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, flags=re.M)) == sorted(MODELS)
