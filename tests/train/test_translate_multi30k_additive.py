from dataclasses import replace

from tfx_transformer.train import translate_multi30k_additive, translate_multi30k_lstm


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(translate_multi30k_additive) > 100_000


def test_only_the_attention_differs():
    own = translate_multi30k_additive.RECIPE
    assert own.model.attention == "additive"
    plain = replace(own.model, attention=None, readout=None)
    assert replace(own, model=plain) == translate_multi30k_lstm.RECIPE
