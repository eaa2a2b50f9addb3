"""Imports go down the levels of the design, and TensorFlow is imported in its places only."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEVELS = [  # of packages and loose modules, from the bottom up; "" is the package itself
    {"", "backend", "checks", "config", "files", "registry", "runtime"},
    {"layers"},
    {"data", "decoding", "training", "visualization"},
    {"models"},
    {"pipelines", "export", "convert", "serving"},
    {"train"},
]
SIDEWAYS = {  # imports between packages of one level, and why
    ("export", "pipelines"): "an export is made from a pipeline",
    ("export", "serving"): "an export has warm-up requests and settings of TensorFlow Serving",
    ("export", "convert"): "the names of CTranslate2's weights, which are also loaded",
    ("convert", "pipelines"): "Marian and CTranslate2 models come with tokenizers, as a Translator",
    ("serving", "export"): "exports are what is served",
    ("serving", "pipelines"): "their results, and streams of text",
}
TENSORFLOW = {  # packages whose modules may import TensorFlow at their top
    "data": "tf.data and the tokenizers' graph ops",
    "export": "SavedModel and LiteRT",
    "pipelines": "tf.function: pipelines are exported",
    "serving": "batches are made by a kernel of TensorFlow",
    "train": "training runs on TensorFlow",
    "training": "the fused optimizer, strategies, TensorBoard files",
}
LAZY = {"backend", "runtime"}  # modules that import it inside of functions only


def part(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def level(module: str) -> int:
    return next(i for i, parts in enumerate(LEVELS) if part(module) in parts)


def modules():
    for folder, name in (("tfx_transformer", ""), ("models", ".models"), ("train", ".train")):
        for path in sorted((ROOT / folder).rglob("*.py")):
            inner = path.relative_to(ROOT / folder).with_suffix("").parts
            module = ".".join(("tfx_transformer" + name, *inner)).removesuffix(".__init__")
            yield pytest.param(module, path, id=str(path.relative_to(ROOT)))


def imports(nodes):
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def all_imports(path):
    return imports(ast.walk(ast.parse(path.read_text())))


@pytest.mark.parametrize("module, path", list(modules()))
def test_imports_go_down(module, path):
    for name in all_imports(path):
        if name.split(".")[0] != "tfx_transformer" or part(name) == part(module):
            continue
        pair = (part(module), part(name))
        assert (
            level(name) < level(module) or pair in SIDEWAYS or level(name) == level(module) == 0
        ), f"{module} imports {name}"


def test_every_sideways_import_is_needed():
    found = set()
    for parameter in modules():
        module, path = parameter.values
        found |= {(part(module), part(name)) for name in all_imports(path) if "tfx_tr" in name}
    assert SIDEWAYS.keys() <= found
    assert all(level(f"x.{a}") == level(f"x.{b}") for a, b in SIDEWAYS)


@pytest.mark.parametrize("module, path", list(modules()))
def test_tensorflow_is_imported_only_where_it_belongs(module, path):
    tree = ast.parse(path.read_text())
    nodes = tree.body if part(module) in LAZY else ast.walk(tree)
    names = {name.split(".")[0] for name in imports(nodes)}
    if part(module) not in TENSORFLOW:
        assert not names & {"tensorflow", "tensorflow_text", "keras_hub"}


def test_few_modules_are_loose():
    loose = {path.stem for path in (ROOT / "tfx_transformer").glob("*.py")} - {"__init__"}
    assert loose == LEVELS[0] - {""} and len(loose) <= 6
    assert len(list((ROOT / "train").glob("*.py"))) <= 12
