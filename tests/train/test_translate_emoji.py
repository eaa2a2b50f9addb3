from tfx_transformer.train import translate_emoji


def test_the_recipe_is_whole_and_needs_no_files(check_recipe):
    assert check_recipe(translate_emoji) > 100_000
    assert translate_emoji.RECIPE.data.train == ("embedded:emoji/en-ko",)
