import dataclasses

import pytest

from tfx_transformer.train import RECIPES
from tfx_transformer.train.recipe import CaptionData, CaptionModel, CaptionRecipe, TranslateModel
from tfx_transformer.train.recipe_file import load_recipe, save_recipe


def test_a_recipe_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECIPES["translate_emoji"].steps = 1


def test_only_what_is_set_overrides_the_variant():
    assert TranslateModel("transformer", "tiny").overrides() == {}
    model = TranslateModel(dropout=0.0, norm_first=False)
    assert model.overrides() == {"dropout": 0.0, "norm_first": False}


def test_no_attention_is_an_option_too():
    assert CaptionModel(attention="none", dim=7).overrides() == {"attention": None, "dim": 7}
    assert CaptionModel(attention="bilinear").overrides() == {"attention": "bilinear"}
    assert CaptionModel(freeze=False, coverage=0.0).overrides() == {"freeze": False, "coverage": 0}


def test_a_captioning_recipe_comes_back_with_an_encoder_of_many_options(tmp_path):
    encoder = {"kind": "small", "dims": [4, 5], "strides": [2, 2]}
    recipe = CaptionRecipe(data=CaptionData("photos", "x.csv"), model=CaptionModel(encoder=encoder))
    save_recipe(recipe, tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == recipe
    assert str(recipe.data) == "photos x.csv" and str(CaptionData("tfds:coco")) == "tfds:coco"
