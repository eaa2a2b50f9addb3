from tfx_transformer.train import swin_t_imagenet


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(swin_t_imagenet) > 27_000_000


def test_the_epochs_are_the_paper_s():
    recipe = swin_t_imagenet.RECIPE
    assert 299 < recipe.steps * recipe.data.batch_size / 1_281_167 < 301
