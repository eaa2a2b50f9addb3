from tfx_transformer.train import classify_cifar10


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(classify_cifar10) == 283_723
    assert classify_cifar10.RECIPE.data.source == ""
