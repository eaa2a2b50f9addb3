"""Recipes and the command line: one experiment, one file, one line below."""

if __name__ != "tfx_transformer.train":
    raise ImportError(f"import this folder as tfx_transformer.train, not as {__name__}")

from tfx_transformer.train import translate_emoji, translate_multi30k

RECIPES = {
    "translate_emoji": translate_emoji.RECIPE,
    "translate_multi30k": translate_multi30k.RECIPE,
}
