"""The site builds without a warning, names everything public, and its tutorials run."""

import importlib
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from tfx_transformer.models import MODELS

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted(path.stem for path in ROOT.glob("docs/tutorials/*.py"))
sys.path.insert(0, str(ROOT / "docs"))
percent = importlib.import_module("percent")
sys.path.pop(0)


# Without graphs, where none is exported: to trace them takes longer than to run each once.
RUN = """
import runpy, sys
from tfx_transformer.runtime import import_tensorflow
import_tensorflow()
import tensorflow as tf
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
tf.config.run_functions_eagerly(True)
for path in sys.argv[1:]:
    runpy.run_path(path, run_name="__main__")
"""


@pytest.mark.docs
def test_the_tutorials_run(tmp_path):
    paths = [ROOT / f"docs/tutorials/{name}.py" for name in TUTORIALS]
    result = subprocess.run(
        [sys.executable, "-c", RUN, *paths],  # one process, which imports TensorFlow only once
        cwd=tmp_path,
        env=os.environ | {"SMALL": "1"},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    texts = " ".join(path.read_text() for path in paths)
    shown = {path.name for path in ROOT.glob("docs/tutorials/pictures/*") if path.name in texts}
    assert shown == {path.name for path in tmp_path.glob("pictures/*")}


@pytest.mark.parametrize("name", TUTORIALS)
def test_every_code_cell_has_a_recorded_output(name):
    outputs = json.loads((ROOT / f"docs/tutorials/{name}.json").read_text())
    script = (ROOT / f"docs/tutorials/{name}.py").read_text()
    assert [kind for kind, _ in percent.cells(script)].count("code") == len(outputs)


def test_a_percent_script_becomes_a_page():
    script = "# %% [markdown]\n# # Title\n#\n# Text.\n\n# %%\nx = 1\nprint(x)\n\n# %%\nx += 1\n"
    page = percent.to_markdown(script, ["1", ""])
    assert page == (
        "# Title\n\nText.\n\n```python\nx = 1\nprint(x)\n```\n\n"
        '```text title="output"\n1\n```\n\n```python\nx += 1\n```\n'
    )
    with pytest.raises(ValueError, match="1 outputs have no cell"):
        percent.to_markdown(script, ["1", "", "2"])


def test_recording_runs_the_cells_in_one_namespace(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("# %%\nx = 1\nprint(x)\n# %% [markdown]\n# text\n# %%\nprint(f'  {x + 1}')\n")
    assert percent.record(path) == ["1", "  2"]


@pytest.fixture
def site():
    folder = ROOT / "site"
    assert folder.exists(), "`make docs` builds it"
    return folder


def public_names():
    """The full names of classes and functions that a user may import, and of modules."""
    names = set()
    for package in ("layers", "data", "decoding", "pipelines", "export", "convert"):
        module = importlib.import_module(f"tfx_transformer.{package}")
        values = [getattr(module, name) for name in module.__all__]
        names |= {f"{v.__module__}.{v.__name__}" for v in values if hasattr(v, "__name__")}
    names |= {f"{model.__module__}.{model.__name__}" for model in MODELS.values()}
    for package in ("training", "visualization"):
        paths = ROOT.glob(f"tfx_transformer/{package}/*.py")
        modules = {path.stem for path in paths} - {"__init__", "figure", "fonts"}  # helpers
        names |= {f"tfx_transformer.{package}.{module}" for module in modules}
    return names


@pytest.mark.docs
def test_the_reference_has_every_public_name(site):
    inventory = zlib.decompress((site / "objects.inv").read_bytes().split(b"zlib.\n")[1]).decode()
    documented = {line.split()[0] for line in inventory.splitlines()}
    assert not public_names() - documented


@pytest.mark.docs
def test_the_pages_need_nothing_from_other_hosts(site):
    for page in site.rglob("*.html"):
        for tag in ('src="http', '<link rel="stylesheet" href="http'):
            assert tag not in page.read_text(), page
