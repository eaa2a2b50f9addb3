"""Sizes of a translator for a number of sentence pairs."""

from dataclasses import replace
from typing import Any

from tfx_transformer.train.recipe import fill
from tfx_transformer.train.tasks.translation import TranslationRecipe

MODELS = (  # from small to large: dim, depth, num_heads, mlp_dim, learning rate, pairs needed
    (128, 2, 4, 256, 2e-3, 0),
    (128, 4, 4, 256, 2e-3, 10_000),
    (192, 4, 4, 512, 1.5e-3, 50_000),
    (256, 4, 4, 1024, 1e-3, 150_000),
    (512, 6, 8, 2048, 7e-4, 1_000_000),
)
VOCABULARY = ((5_000, 2_000), (20_000, 4_000), (100_000, 6_000), (1_000_000, 16_000))
DROPOUT = ((100_000, 0.3), (500_000, 0.2))


def propose_sizes(recipe: TranslationRecipe, pairs: int) -> list[TranslationRecipe]:
    """Recipes for a number of training pairs, from small to large; options that are set stay."""
    if recipe.model.is_sized:
        return [recipe]
    from tfx_transformer.train.recipes import RECIPES

    default: Any = RECIPES["translate"]
    vocab_size = first_above(VOCABULARY, pairs, 32_000)
    data = fill(recipe.data, default.data, vocab_size=vocab_size)
    found = []
    for dim, depth, num_heads, mlp_dim, rate, needed in MODELS:
        if pairs >= needed:
            sizes = dict(dim=dim, depth=depth, num_heads=num_heads, mlp_dim=mlp_dim)
            sizes |= {"dropout": first_above(DROPOUT, pairs, 0.1), "norm_first": True}
            model = replace(recipe.model, options=sizes | recipe.model.options)
            optimizer = fill(recipe.optimizer, default.optimizer, learning_rate=rate)
            found.append(replace(recipe, data=data, model=model, optimizer=optimizer))
    return found


def first_above(table, count: int, otherwise: Any) -> Any:
    """The value of the first row whose limit is above a count."""
    return next((value for limit, value in table if count < limit), otherwise)
