"""A recipe as a file of its run, and back."""

import dataclasses
import json
from pathlib import Path
from typing import get_type_hints

from tfx_transformer.train.recipe import CaptionRecipe, ClassifyRecipe, Recipe, TranslateRecipe
from tfx_transformer.train.text_recipe import ClassifyTextRecipe, LanguageRecipe, MaskRecipe

KINDS = {
    "caption": CaptionRecipe,
    "classify": ClassifyRecipe,
    "classify_text": ClassifyTextRecipe,
    "language": LanguageRecipe,
    "mask": MaskRecipe,
    "translate": TranslateRecipe,
}


def save_recipe(recipe: Recipe, path: Path) -> None:
    kind = next(name for name, own in KINDS.items() if isinstance(recipe, own))
    path.write_text(json.dumps({"kind": kind} | dataclasses.asdict(recipe), indent=2) + "\n")


def load_recipe(path: Path) -> Recipe:
    """The recipe of a run folder."""
    stored = json.loads(path.read_text())
    return _restore(KINDS[stored.pop("kind")], stored)


def _restore(kind, stored):
    """The dataclass `kind` from its dict."""
    types = get_type_hints(kind)
    for name, value in stored.items():
        if dataclasses.is_dataclass(types[name]):
            stored[name] = _restore(types[name], value)
        elif isinstance(value, list):
            stored[name] = tuple(value)
    return kind(**stored)
