import dataclasses
import json

import pytest

from tfx_transformer.train import RECIPES
from tfx_transformer.train.recipe_file import KINDS, load_recipe, save_recipe


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_comes_back_from_its_file(name, tmp_path):
    save_recipe(RECIPES[name], tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == RECIPES[name]


def test_every_kind_has_a_recipe_and_is_told_by_its_name(tmp_path):
    path, found = tmp_path / "recipe.json", set()
    for recipe in RECIPES.values():
        save_recipe(recipe, path)
        found.add(kind := json.loads(path.read_text())["kind"])
        assert KINDS[kind] is type(recipe)
    assert found == set(KINDS)


def test_a_field_that_a_file_does_not_have_is_as_by_default(tmp_path):
    path, recipe = tmp_path / "recipe.json", RECIPES["translate_emoji"]
    save_recipe(dataclasses.replace(recipe, patience=7), path)
    stored = json.loads(path.read_text())
    stored.pop("patience")
    path.write_text(json.dumps(stored))
    assert load_recipe(path) == dataclasses.replace(recipe, patience=0)
