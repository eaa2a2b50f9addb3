from dataclasses import replace

from tfx_transformer.train import translate_multi30k_lstm, translate_multi30k_lstm_reversed


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(translate_multi30k_lstm_reversed) > 100_000


def test_only_the_reading_differs():
    own = translate_multi30k_lstm_reversed.RECIPE
    assert own.model.reverse_source
    assert (
        replace(own, model=translate_multi30k_lstm.RECIPE.model) == translate_multi30k_lstm.RECIPE
    )
