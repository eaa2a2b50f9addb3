from tfx_transformer.train import classify_text
from tfx_transformer.train.text_classification import load_split


def test_the_recipe_is_whole_and_its_data_are_embedded(check_recipe):
    assert check_recipe(classify_text) > 400_000
    data = classify_text.RECIPE.data
    for split, least in (("train", 20_000), ("validation", 2000), ("test", 2000)):
        assert len(load_split(data, split)) > least
