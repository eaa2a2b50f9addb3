"""Recipes and the command line: one experiment, one file, one line below."""

if __name__ != "tfx_transformer.train":
    raise ImportError(f"import this folder as tfx_transformer.train, not as {__name__}")

from tfx_transformer.train import (
    classify_cifar10,
    classify_digits,
    classify_folder,
    deit_s16_imagenet,
    translate_emoji,
    translate_multi30k,
    translate_pt_en,
    translate_wmt14_base,
    translate_wmt14_big,
    vit_s16_imagenet,
)
from tfx_transformer.train.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    "classify_cifar10": classify_cifar10.RECIPE,
    "classify_digits": classify_digits.RECIPE,
    "classify_folder": classify_folder.RECIPE,
    "deit_s16_imagenet": deit_s16_imagenet.RECIPE,
    "translate_emoji": translate_emoji.RECIPE,
    "translate_multi30k": translate_multi30k.RECIPE,
    "translate_pt_en": translate_pt_en.RECIPE,
    "translate_wmt14_base": translate_wmt14_base.RECIPE,
    "translate_wmt14_big": translate_wmt14_big.RECIPE,
    "vit_s16_imagenet": vit_s16_imagenet.RECIPE,
}
