"""Recipes and the command line: one experiment, one file, one line below."""

if __name__ != "tfx_transformer.train":
    raise ImportError(f"import this folder as tfx_transformer.train, not as {__name__}")

from tfx_transformer.train import (
    translate_emoji,
    translate_multi30k,
    translate_pt_en,
    translate_wmt14_base,
    translate_wmt14_big,
)

RECIPES = {
    "translate_emoji": translate_emoji.RECIPE,
    "translate_multi30k": translate_multi30k.RECIPE,
    "translate_pt_en": translate_pt_en.RECIPE,
    "translate_wmt14_base": translate_wmt14_base.RECIPE,
    "translate_wmt14_big": translate_wmt14_big.RECIPE,
}
