from tfx_transformer.train import gpt2_small


def test_the_recipe_is_whole_and_of_the_published_size(check_recipe):
    assert check_recipe(gpt2_small) == 124_439_808 - (50_257 - 100) * 768


def test_an_update_has_half_a_million_tokens():
    data, optimizer = gpt2_small.RECIPE.data, gpt2_small.RECIPE.optimizer
    assert data.batch_size * data.max_length * optimizer.accumulate == 491_520
