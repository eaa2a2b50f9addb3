from tfx_transformer.train import vit_s16_imagenet


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(vit_s16_imagenet) > 21_000_000
    assert vit_s16_imagenet.RECIPE.data.source == "tfds:imagenet2012"
