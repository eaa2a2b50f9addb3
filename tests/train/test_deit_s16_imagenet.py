from tfx_transformer.train import deit_s16_imagenet


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(deit_s16_imagenet) == 22_050_664 - 990 * 385
    assert deit_s16_imagenet.RECIPE.data.source == "tfds:imagenet2012"
