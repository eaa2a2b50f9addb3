from tfx_transformer.train import bert_base


def test_the_recipe_is_whole_and_of_the_paper_s_size(check_recipe):
    assert bert_base.RECIPE.data.vocab_size + 1 == 30_522  # the mask is one more
    assert check_recipe(bert_base) == 109_514_298 - (30_522 - 101) * 769


def test_an_update_has_the_paper_s_tokens():
    assert bert_base.RECIPE.data.token_budget == 256 * 512
