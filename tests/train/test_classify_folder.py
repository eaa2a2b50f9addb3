from tfx_transformer.train import classify_folder


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(classify_folder) == 5_526_346
    assert classify_folder.RECIPE.data.source == ""
