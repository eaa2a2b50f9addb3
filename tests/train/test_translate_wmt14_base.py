import pytest

from tfx_transformer.train import translate_wmt14_base


def test_the_recipe_is_whole_and_of_the_paper_s_size(check_recipe):
    assert check_recipe(translate_wmt14_base) == 60_522_496 - (32_000 - 100) * 512


def test_the_rate_peaks_where_the_paper_s_does():
    own = translate_wmt14_base.RECIPE.optimizer
    assert own.learning_rate == pytest.approx(512**-0.5 * own.warmup_steps**-0.5, rel=0.02)
