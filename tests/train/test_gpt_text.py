from tfx_transformer.train import gpt_text


def test_the_recipe_is_whole(check_recipe):
    blocks = 4 * (12 * 128**2 + 13 * 128) + 2 * 128
    assert check_recipe(gpt_text) == blocks + (100 + 128) * 128
    assert gpt_text.RECIPE.data.train == ""
