"""Recipes: one experiment, one file. A file's name is the recipe's name; its docstring is its help.

RECIPES holds all of them. This module imports no TensorFlow.
"""

import importlib
import pkgutil

from tfx_transformer.train.recipe import Recipe


def _find(package: str):
    """(name, module) of every recipe file below a package."""
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        if found.ispkg:
            yield from _find(found.name)
        else:
            yield found.name.rpartition(".")[2], importlib.import_module(found.name)


MODULES = dict(sorted(_find(__name__)))
RECIPES: dict[str, Recipe] = {name: module.RECIPE for name, module in MODULES.items()}
