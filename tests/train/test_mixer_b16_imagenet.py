from tfx_transformer.train import mixer_b16_imagenet


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(mixer_b16_imagenet) > 58_000_000


def test_the_epochs_are_the_paper_s():
    recipe = mixer_b16_imagenet.RECIPE
    assert 299 < recipe.steps * recipe.data.batch_size / 1_281_167 < 301
