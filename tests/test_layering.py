"""The folders are a stack: an import may only go down, and TensorFlow has its places."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GROUND = {"", "checks", "config", "quiet", "registry"}
LEVEL = {"layers": 1, "convert": 3, "models": 3, "train": 4}  # all others are 2
TENSORFLOW = {
    "captioner",
    "classifier",
    "data",
    "export",
    "generator",
    "graph",
    "optimizer",
    "portable",
    "quiet",
    "serve",
    "strategy",
    "streaming",
    "text_classifier",
    "train",
    "translator",
}  # where its import belongs


def part(module):
    return module.split(".")[1] if "." in module else ""


def level(module):
    return 0 if part(module) in GROUND else LEVEL.get(part(module), 2)


def modules():
    for folder, name in (("tfx_transformer", ""), ("models", ".models"), ("train", ".train")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT / folder).with_suffix("").parts
            module = ".".join(("tfx_transformer" + name, *inner)).removesuffix(".__init__")
            yield pytest.param(module, path, id=str(path.relative_to(ROOT)))


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.mark.parametrize("module, path", list(modules()))
def test_imports_go_down(module, path):
    for name in imports(path):
        if name.split(".")[0] == "tfx_transformer":
            assert level(name) <= level(module), f"{module} imports {name}"


@pytest.mark.parametrize("module, path", list(modules()))
def test_tensorflow_is_imported_only_where_it_belongs(module, path):
    names = {name.split(".")[0] for name in imports(path)}
    if part(module) not in TENSORFLOW:
        assert not names & {"tensorflow", "tensorflow_text", "keras_hub"}
