import dataclasses

from tfx_transformer.models import create_model
from tfx_transformer.train import translate_multi30k


def test_the_recipe_is_whole(check_recipe):
    assert check_recipe(translate_multi30k) > 100_000


def test_the_model_is_the_paper_s_but_for_its_last_norms():
    """2,568,192 parameters at 9,712 tokens, post-norm (arXiv:2105.14462)."""
    own = dataclasses.replace(translate_multi30k.RECIPE.model, norm_first=False)
    model = create_model(own.name, own.variant, vocab_size=9712, **own.overrides())
    model.build({"source": (None, None), "target": (None, None)})
    assert model.count_params() == 2_568_192
