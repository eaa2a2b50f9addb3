"""The wheel has one top-level name, and every way of importing finds models and train."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.metadata import Metadata

import tfx_transformer

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONFIG = PROJECT["tool"]["setuptools"]


def python(*arguments, cwd=ROOT):
    """Runs Python without the user's path, so that only `cwd` and site-packages count."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300
    )


def test_the_package_list_names_every_folder():
    folders = {"tfx_transformer": "tfx_transformer", "models": "tfx_transformer.models"}
    folders |= {"train": "tfx_transformer.train"}
    found = []
    for top, name in folders.items():
        for path in (ROOT / top).rglob("*.py"):
            found.append(".".join((name, *path.parent.relative_to(ROOT / top).parts)))
    assert sorted(set(found)) == CONFIG["packages"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel that `python -m build` makes of the source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"  # a build in place leaves a folder that later builds would pick up
    for name in CONFIG["package-dir"].values():
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    result = python("-m", "build", "--no-isolation", "--outdir", str(folder), str(copy), cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "absent from the `packages`" not in result.stdout + result.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_has_one_top_level_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tfx_transformer"}
    assert {"tfx_transformer/py.typed", "tfx_transformer/serving/page/index.html"} <= set(names)
    for module in ("models/__init__.py", "train/cli.py", "layers/attention/multi_head.py"):
        assert f"tfx_transformer/{module}" in names


def test_the_source_distribution_has_every_package(wheel):
    with tarfile.open(next(wheel.parent.glob("*.tar.gz"))) as archive:
        inner = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "models/vit.py", "train/cli.py"} <= inner


def test_the_metadata_is_valid(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    metadata = Metadata.from_email(archive.read(name), validate=True)
    assert metadata.name == "tfx-transformer" and metadata.summary
    assert str(metadata.version) == tfx_transformer.__version__
    assert metadata.license_expression == "Apache-2.0" and metadata.license_files == ["LICENSE"]
    assert metadata.description_content_type == "text/markdown"
    assert set(metadata.provides_extra) == set(PROJECT["project"]["optional-dependencies"])


def test_the_citation_has_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == tfx_transformer.__version__
    assert citation["license"] == PROJECT["project"]["license"]


def test_the_workflow_runs_the_commands_of_ci_on_every_supported_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())
    job = workflow["jobs"]["test"]
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == [
        line for line in (ROOT / ".ci/run").read_text().splitlines() if "make" in line
    ]
    classifiers = [text.rpartition(" ")[2] for text in PROJECT["project"]["classifiers"]]
    assert job["strategy"]["matrix"]["python"] == [text for text in classifiers if "3." in text]


def test_the_image_contains_what_the_package_needs():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {name for line in lines if line.startswith("COPY") for name in line.split()[1:-1]}
    assert copied == {"pyproject.toml", "README.md", "LICENSE", *CONFIG["package-dir"].values()}
    kept = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"
    ]
    assert set(kept) == copied


def test_the_wheel_imports_from_another_folder(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "import tfx_transformer.models, tfx_transformer.train; print(tfx_transformer.__file__)"
    result = python("-c", code, cwd=tmp_path)
    assert str(tmp_path) in result.stdout, result.stderr


def test_a_plain_checkout_imports(tmp_path):
    code = (
        "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)];"
        "import tfx_transformer.models as m, tfx_transformer.train; print(m.__file__)"
    )
    result = python("-c", code)
    assert str(ROOT / "models") in result.stdout, result.stderr


@pytest.mark.parametrize("name", ["models", "train"])
def test_the_bare_name_says_what_to_import(name):
    result = python("-c", f"import {name}")
    assert f"import this folder as tfx_transformer.{name}, not as {name}" in result.stderr


SAVE = """
import sys, keras
from tfx_transformer.layers import SinusoidalPosition, TokenEmbedding, TransformerBlock
from tfx_transformer.models import create_model
from tfx_transformer.training.losses import TokenCrossentropy
layers = [TokenEmbedding(9, 8), SinusoidalPosition(), TransformerBlock(8, 2, 16)]
model = keras.Sequential([keras.Input((None,), dtype="int32"), *layers, keras.layers.Dense(9)])
model.compile("adam", TokenCrossentropy())
model.save(sys.argv[1] + "/sequential.keras")
create_model("vit", "test", num_classes=3).save(sys.argv[1] + "/vit.keras")
"""


@pytest.fixture(scope="module")
def saved_models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    assert python("-c", SAVE, str(folder)).returncode == 0
    return folder


@pytest.mark.parametrize("names", ["keras, tfx_transformer", "tfx_transformer, keras"])
def test_keras_loads_saved_models_after_importing_the_package_alone(names, saved_models):
    code = f"import {names}\n"
    for name in ("sequential", "vit"):
        code += f"keras.saving.load_model({str(saved_models / name)!r} + '.keras')\n"
    result = python("-c", code)
    assert result.returncode == 0, result.stderr
    if names.startswith("tfx"):
        assert "oneDNN" not in result.stderr and "AVX" not in result.stderr
