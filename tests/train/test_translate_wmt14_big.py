import pytest

from tfx_transformer.train import translate_wmt14_base, translate_wmt14_big


def test_the_recipe_is_whole_and_of_the_paper_s_size(check_recipe):
    assert check_recipe(translate_wmt14_big) == 209_125_376 - (32_000 - 100) * 1024


def test_it_differs_from_base_in_size_rate_and_length():
    own, base = translate_wmt14_big.RECIPE, translate_wmt14_base.RECIPE
    assert own.data == base.data and own.decoding == base.decoding
    assert own.optimizer.learning_rate == pytest.approx(1024**-0.5 * 4000**-0.5, rel=0.02)
