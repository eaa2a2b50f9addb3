from tfx_transformer.train import classify_digits


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(classify_digits) > 100_000
    assert classify_digits.RECIPE.data.source == "embedded:digits"
