from tfx_transformer.train import translate_pt_en


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(translate_pt_en) > 1_000_000
