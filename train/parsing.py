"""Parses `train RECIPE …` and `train --resume FOLDER …` into a recipe; imports no TensorFlow."""

import dataclasses
import difflib
import inspect
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from tfx_transformer.train.options import given, model_options, options_class
from tfx_transformer.train.recipe import ModelOptions, Recipe, flatten, load_recipe
from tfx_transformer.train.recipes import MODULES, RECIPES

PROG = "tfx-transformer"
ALIASES = {  # names of options in other libraries
    "batch_size": "token_budget",
    "clip": "clip_norm",
    "d_model": "dim",
    "epochs": "steps",
    "heads": "num_heads",
    "hidden_size": "dim",
    "layers": "depth",
    "lr": "learning_rate",
    "max_steps": "steps",
    "num_layers": "depth",
    "output": "folder",
    "output_dir": "folder",
    "warmup": "warmup_steps",
    "wd": "weight_decay",
}


@dataclass(frozen=True)
class ModelChoice:
    """The model; options that are not given are as in its variant."""

    name: str
    """A model of the zoo: see `tfx-transformer list`."""
    variant: str | None = None
    """A named set of sizes; not needed if all sizes are given."""


def parse_train(arguments: list[str]) -> tuple[Recipe, str]:
    """The recipe and the folder of `train RECIPE …`, or of `train --resume FOLDER …`."""
    name, arguments = arguments[0], arguments[1:]
    if name.startswith("--resume"):
        folder = name.partition("=")[2] or "".join(arguments[:1])
        if not folder or folder.startswith("-"):
            raise ValueError("--resume must be followed by a run folder")
        arguments = arguments if "=" in name else arguments[1:]
        recipe = load_recipe(Path(folder) / "recipe.json")
        return parse_options(recipe, arguments, f"train --resume {folder}", "", folder)
    if name not in RECIPES:
        close = difflib.get_close_matches(name, RECIPES, 1)
        hint = f"did you mean {close[0]}?" if close else f"see {PROG} train --help"
        raise ValueError(f"unknown recipe {name!r}; {hint}")
    description = re.sub(r"\n(Time|Result):", r"\n\n\1:", MODULES[name].__doc__ or "")
    return parse_options(RECIPES[name], arguments, f"train {name}", description, f"runs/{name}")


def parse_options(
    recipe: Any, arguments: list[str], command: str, description: str, default_folder: str
) -> tuple[Recipe, str]:
    """The recipe with the options of a command line, and the folder."""
    model, flat = recipe.model, _flat_recipe(recipe, _model_name(arguments) or recipe.model.name)
    check_flags(arguments, [*flatten(dataclasses.asdict(flat)), "folder", "help"])

    def parse(
        recipe: Annotated[type(flat), tyro.conf.arg(name="")] = flat,  # type: ignore[valid-type]
        folder: str = default_folder,
    ):
        """Parse the options.

        Args:
            recipe: options of the recipe.
            folder: the run folder; a repeated command continues the run in it.
        """
        return recipe, folder

    parsed, folder = tyro.cli(
        parse, prog=f"{PROG} {command}", description=description, args=arguments
    )
    chosen = given(parsed.model)
    own = model.options if chosen["name"] == model.name else {}
    options = own | {k: v for k, v in chosen.items() if k not in ("name", "variant")}
    types = model_options(chosen["name"])
    for key, value in options.items():  # options that take no name at all, such as attention
        if value == "none" and "none" not in str(types[key].type):
            options[key] = None
    values = {field.name: getattr(parsed, field.name) for field in dataclasses.fields(recipe)}
    flags = {argument.partition("=")[0] for argument in arguments}
    if "--steps" in flags and "--minutes" in flags:
        raise ValueError("--steps must not be given with --minutes, which chooses the steps")
    if "--steps" in flags:
        values["minutes"] = None
    values["model"] = ModelOptions(chosen["name"], chosen.get("variant"), options)
    return type(recipe)(**values), folder


def check_flags(arguments: list[str], names: list[str]) -> None:
    """Raises for an option that does not exist, and suggests one of these names."""
    for argument in itertools.takewhile(lambda x: x != "--", arguments):
        flag = argument.partition("=")[0]
        name = flag.lstrip("-").replace("-", "_")
        prefix, _, last = name.rpartition(".")
        positive = f"{prefix}.{last.removeprefix('no_')}".lstrip(".")
        if not flag.startswith("--") or name in names or positive in names:
            continue
        found: list[str] = []
        for meant in (last, ALIASES.get(last)):
            found = found or [known for known in names if known.rpartition(".")[2] == meant]
        found = found or difflib.get_close_matches(name, names, 1)
        flags = " or ".join(f"--{known}".replace("_", "-") for known in found)
        hint = f"did you mean {flags}?" if found else "see --help"
        raise ValueError(f"unknown option {flag}; {hint}")


def check_command(arguments: list[str], commands: dict[str, Callable]) -> None:
    """Raises for a command or one of its options that does not exist."""
    name = arguments[0] if arguments else "-"
    if name.startswith("-"):
        return
    if name not in commands:
        close = difflib.get_close_matches(name, commands, 1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(commands)}"
        raise ValueError(f"unknown command {name}; {hint}")
    names = ["help"]
    for parameter in inspect.signature(commands[name]).parameters.values():
        is_group = dataclasses.is_dataclass(parameter.default)
        names += field_names(parameter.default) if is_group else [parameter.name]
    check_flags(arguments[1:], names)


def field_names(options: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(options)]


def _model_name(arguments: list[str]) -> str | None:
    """The value of --model.name, which decides which other options there are."""
    for i, argument in enumerate(arguments):
        flag, _, value = argument.partition("=")
        if flag == "--model.name":
            return value or "".join(arguments[i + 1 : i + 2])
    return None


def _flat_recipe(recipe: Any, name: str) -> Any:
    """The recipe with an option for each constructor argument of its model."""
    own = recipe.model if recipe.model.name == name else ModelOptions(name)
    options = {k: v for k, v in model_options(name).items() if k not in recipe.set_by_task}
    defaults = {k: v for k, v in own.options.items() if not isinstance(v, dict | type(None))}
    kind = options_class("Model", options, (ModelChoice,), "as in the variant", **defaults)
    model = kind(name=name, variant=own.variant)
    fields = [("model", kind, dataclasses.field(default=model))]
    flat = dataclasses.make_dataclass("Recipe", fields, bases=(type(recipe),), frozen=True)
    values = {field.name: getattr(recipe, field.name) for field in dataclasses.fields(recipe)}
    return flat(**values | {"model": model})


def recipe_list() -> str:
    """The recipes with the first line of their docstrings."""
    width = max(map(len, RECIPES))
    names = list(dict.fromkeys(["translate", "classify", *RECIPES]))  # for one's own data first
    lines = [f"  {name:<{width}}  {MODULES[name].__doc__.split(chr(10))[0]}" for name in names]
    return "\n".join(
        [
            f"usage: {PROG} train RECIPE [OPTIONS]",
            f"       {PROG} train --resume FOLDER    continue a run that was stopped",
            "",
            "Train a recipe. `RECIPE --help` lists its options. Recipes:",
            *lines,
        ]
    )
