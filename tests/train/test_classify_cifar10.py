from tfx_transformer.train import classify_cifar10


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(classify_cifar10) == 1_637_003
    assert classify_cifar10.RECIPE.data.source == ""
