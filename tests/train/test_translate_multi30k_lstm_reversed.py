from dataclasses import replace

from tfx_transformer.train import translate_multi30k_lstm, translate_multi30k_lstm_reversed


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(translate_multi30k_lstm_reversed) > 100_000


def test_only_the_reading_differs():
    own = translate_multi30k_lstm_reversed.RECIPE
    assert own.model.reverse_source
    plain = replace(own.model, reverse_source=None)
    assert replace(own, model=plain) == translate_multi30k_lstm.RECIPE
