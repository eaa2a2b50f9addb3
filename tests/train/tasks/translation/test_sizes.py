import dataclasses

import pytest

from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.tasks.translation.sizes import propose_sizes

RECIPE = RECIPES["translate"]


@pytest.mark.parametrize(
    "pairs, dims, vocab_size, dropout",
    [(500, [128], 2000, 0.3), (29_000, [128, 128], 6000, 0.3), (5_000_000, [128] * 2, 32_000, 0.1)],
)
def test_more_pairs_allow_larger_models(pairs, dims, vocab_size, dropout):
    found = propose_sizes(RECIPE, pairs)
    assert [recipe.model.options["dim"] for recipe in found][:2] == dims
    assert {recipe.data.vocab_size for recipe in found} == {vocab_size}
    assert {recipe.model.options["dropout"] for recipe in found} == {dropout}
    assert len(propose_sizes(RECIPE, 5_000_000)) == 5


def test_options_that_are_set_stay():
    model = ModelOptions.of("transformer", dropout=0.15)
    data = dataclasses.replace(RECIPE.data, vocab_size=300)
    found = propose_sizes(dataclasses.replace(RECIPE, model=model, data=data), 29_000)
    assert {recipe.model.options["dropout"] for recipe in found} == {0.15}
    assert {recipe.data.vocab_size for recipe in found} == {300}
    optimizer = dataclasses.replace(RECIPE.optimizer, learning_rate=3e-4)
    found = propose_sizes(dataclasses.replace(RECIPE, optimizer=optimizer), 29_000)
    assert {recipe.optimizer.learning_rate for recipe in found} == {3e-4}
    part = dataclasses.replace(RECIPE, model=ModelOptions.of("transformer", dim=64))
    assert [x.model.options["dim"] for x in propose_sizes(part, 29_000)] == [64, 64]
    sized = dataclasses.replace(RECIPE, model=ModelOptions("transformer", "small"))
    assert propose_sizes(sized, 29_000) == [sized]
