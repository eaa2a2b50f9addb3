"""Every source file has its test, and every variant file its registry line."""

import inspect
from pathlib import Path

import pytest

from tfx_transformer.layers import ATTENTION, NORM, POSITION
from tfx_transformer.layers.attention.base import Attention

ROOT = Path(__file__).parents[1]
SHARED = {  # folders whose files one parametrized test covers
    "train/recipes": "tests/train/test_recipes.py",
}
TOGETHER = {  # files that are tested in the file of another
    "tfx_transformer/pipelines/images.py": "tests/pipelines/test_classifier.py",
    "tfx_transformer/data/captions/formats.py": "tests/data/captions/test_sources.py",
    "tfx_transformer/data/text/cldr_forms.py": "tests/data/text/test_cldr.py",
    "tfx_transformer/data/text/sentencepiece_model.py": "tests/data/text/test_tokenizer.py",
    "tfx_transformer/convert/keras_file.py": "tests/convert/test_preset.py",
    "tfx_transformer/serving/responses.py": "tests/serving/test_api.py",
    "tfx_transformer/serving/schemas.py": "tests/serving/test_api.py",
    "train/tasks/masked_language_model/plots.py": "tests/train/tasks/language_model/test_plots.py",
    "train/tasks/text_classification/plots.py": "tests/train/tasks/language_model/test_plots.py",
}
GRID_ATTENTION = {"window", "neighborhood"}  # their input is a grid: they are not interchangeable


def sources():
    for folder, tests in (
        ("tfx_transformer", "tests"),
        ("models", "tests/models"),
        ("train", "tests/train"),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if path.name == "__init__.py" or name.startswith(tuple(SHARED)):
                continue
            inner = path.relative_to(ROOT / folder)
            test = ROOT / tests / inner.parent / f"test_{inner.name}"
            yield pytest.param(ROOT / TOGETHER[name] if name in TOGETHER else test, id=name)


@pytest.mark.parametrize("test", [*sources(), *(ROOT / path for path in SHARED.values())])
def test_every_source_file_has_its_test(test):
    assert test.is_file(), f"missing: {test.relative_to(ROOT)}"


def test_every_attention_file_has_its_registry_line():
    folder = ROOT / "tfx_transformer/layers/attention"
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "base", "dot_product"}
    assert files == set(ATTENTION) | GRID_ATTENTION
    for name, layer in ATTENTION.items():
        assert inspect.getfile(layer).endswith(f"/{name}.py") and issubclass(layer, Attention)


@pytest.mark.parametrize("registry", [ATTENTION, NORM, POSITION], ids=lambda r: r.what)
def test_a_registry_reads_in_order(registry):
    assert list(registry) == sorted(registry)
