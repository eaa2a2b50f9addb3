from dataclasses import replace

from tfx_transformer.train import classify_cifar10, classify_cifar10_mixer


def test_the_recipe_is_whole(check_recipe):
    assert 100_000 < check_recipe(classify_cifar10_mixer) < 4_000_000


def test_only_the_model_differs():
    compact = classify_cifar10.RECIPE
    assert replace(classify_cifar10_mixer.RECIPE, model=compact.model) == compact
