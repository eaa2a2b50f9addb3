import json

import pytest

from tfx_transformer.models import MODELS
from tfx_transformer.train import listing


@pytest.fixture(scope="module")
def table():
    return listing.rows()


def test_every_variant_of_every_model_has_a_row(table):
    named = [(row["model"], row["variant"]) for row in table]
    assert named == [(name, v) for name, kind in MODELS.items() for v in kind.variants]
    assert all(row["parameters"] > 100 for row in table)


def test_weights_are_of_those_that_can_be_read(table):
    families = {row["model"]: row["weights"] for row in table}
    assert families["vit"][:2] == ["timm", "Hugging Face"]
    assert families["transformer"] == ["Marian", "CTranslate2"]
    assert families["pixel_transformer"] == []


def test_the_stored_table_is_the_counted_one(table):
    hint = "write it again: python -m tfx_transformer.train.listing"
    assert json.loads(listing.STORED.read_text()) == table, hint


def test_the_table_is_text_or_json(table):
    lines = listing.show().splitlines()
    assert len(lines) == len(table) + 3 and lines[0].split()[:2] == ["model", "variant"]
    (base,) = [line for line in lines if line.startswith("transformer") and " base " in line]
    assert "60,522,496 " in base and "vocab_size=32000" in base and "1706.03762" in base
    (row,) = [line for line in lines if line.startswith("transformer") and " test " in line]
    assert " * " in row
    assert json.loads(listing.show(as_json=True)) == table
