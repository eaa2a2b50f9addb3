from tfx_transformer.train.recipe import Recipe
from tfx_transformer.train.text_recipe import (
    ClassifyTextData,
    ClassifyTextRecipe,
    LanguageData,
    LanguageRecipe,
    MaskData,
    MaskRecipe,
)


def test_data_are_named_by_what_is_learned_from():
    for data in (LanguageData, MaskData, ClassifyTextData):
        assert str(data("tale.txt", test="other.txt")) == "tale.txt"


def test_the_texts_are_not_smoothed_and_a_language_model_draws():
    for kind in (LanguageRecipe, MaskRecipe, ClassifyTextRecipe):
        assert issubclass(kind, Recipe) and kind().label_smoothing == 0
    assert LanguageRecipe().decoding.spec()["kind"] == "sample"
