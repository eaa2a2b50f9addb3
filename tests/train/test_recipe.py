import dataclasses

import pytest

from tfx_transformer.train import RECIPES
from tfx_transformer.train.recipe import Decoding, TranslateModel, load_recipe, save_recipe


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_comes_back_from_its_file(name, tmp_path):
    save_recipe(RECIPES[name], tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == RECIPES[name]


def test_a_recipe_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECIPES["translate_emoji"].steps = 1


def test_only_what_is_set_overrides_the_variant():
    assert TranslateModel("transformer", "tiny").overrides() == {}
    model = TranslateModel(dropout=0.0, norm_first=False)
    assert model.overrides() == {"dropout": 0.0, "norm_first": False}


def test_only_a_beam_has_a_width():
    assert Decoding("greedy", width=7).spec() == {"kind": "greedy"}
    assert Decoding("beam", width=7).spec()["width"] == 7
