from tfx_transformer.train import translate_multi30k_lstm


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(translate_multi30k_lstm) > 100_000
