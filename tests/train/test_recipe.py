import dataclasses
import json

import pytest

from tfx_transformer.train.recipe import ModelOptions, load_recipe, save_recipe
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.tasks import TASKS
from tfx_transformer.train.tasks.captioning import CaptioningData, CaptioningRecipe


def test_a_recipe_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECIPES["translate_emoji"].steps = 1


def test_model_options_are_given_by_name_and_changed_by_name():
    model = ModelOptions.of("transformer", "small", dropout=0.3, depth=2)
    assert (model.name, model.variant) == ("transformer", "small")
    assert model.replace(depth=4).options == {"dropout": 0.3, "depth": 4}
    assert model.options == {"dropout": 0.3, "depth": 2}


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_is_restored_from_its_file(name, tmp_path):
    save_recipe(RECIPES[name], tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == RECIPES[name]


def test_nested_options_and_lists_are_restored(tmp_path):
    encoder = {"kind": "small", "dims": (4, 5), "strides": (2, 2)}
    model = ModelOptions.of("show_attend_tell", "test", encoder=encoder)
    recipe = CaptioningRecipe(data=CaptioningData("photos", "x.csv"), model=model)
    save_recipe(recipe, tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == recipe
    assert str(recipe.data) == "photos x.csv" and str(CaptioningData("tfds:coco")) == "tfds:coco"


def test_a_file_names_its_task(tmp_path):
    path = tmp_path / "recipe.json"
    for recipe in RECIPES.values():
        save_recipe(recipe, path)
        assert TASKS[json.loads(path.read_text())["task"]] is type(recipe)


def test_a_field_that_is_not_in_the_file_has_its_default(tmp_path):
    path, recipe = tmp_path / "recipe.json", RECIPES["translate_emoji"]
    save_recipe(dataclasses.replace(recipe, patience=7), path)
    stored = json.loads(path.read_text())
    stored.pop("patience")
    path.write_text(json.dumps(stored))
    assert load_recipe(path) == dataclasses.replace(recipe, patience=0)


def test_a_run_folder_of_an_older_version_is_refused_in_one_line(tmp_path):
    (tmp_path / "recipe.json").write_text('{"kind": "translate", "steps": 3}')
    with pytest.raises(ValueError, match="was written by an older version") as error:
        load_recipe(tmp_path / "recipe.json")
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)
