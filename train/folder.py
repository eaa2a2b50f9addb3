"""The run folder: what an experiment leaves behind, and how it is read again.

`recipe.json versions.json tokenizer/ checkpoints/ samples/ tensorboard/ metrics.jsonl` and, in the
end, `model.keras test.json`.
"""

import dataclasses
import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import tfx_transformer.models  # noqa: F401  # so that Keras knows their classes
from tfx_transformer import __version__
from tfx_transformer.data import Tokenizer
from tfx_transformer.train.recipe import Recipe, Search, load_recipe, save_recipe
from tfx_transformer.translator import Translator

SIDES = ("source", "target")
FREE = ("steps", "decoding")  # fields of a recipe that may change from one call to the next


def check_folder(recipe: Recipe, folder: Path) -> None:
    """Refuses a folder that holds a run of another recipe.

    More steps, or another search, are no other recipe: the weights so far are the same.
    """
    path = folder / "recipe.json"
    if path.exists():
        old, new = dataclasses.asdict(load_recipe(path)), dataclasses.asdict(recipe)
        changed = [name for name in new if old[name] != new[name] and name not in FREE]
        if changed:
            raise ValueError(
                f"{folder} holds a run of another recipe: {', '.join(changed)} changed; "
                "choose another folder, or remove this one"
            )


def open_folder(recipe: Recipe, folder: Path) -> None:
    """Makes the run folder, with the recipe and the versions in it."""
    folder.mkdir(parents=True, exist_ok=True)
    save_recipe(recipe, folder / "recipe.json")
    versions = {"tfx_transformer": __version__, "python": platform.python_version()}
    versions |= {"tensorflow": tf.__version__, "keras": keras.__version__}
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    recipe: Recipe
    model: Any
    tokenizers: tuple[Tokenizer, Tokenizer]

    def translator(self, search: Search | None = None, jit_compile: bool = False) -> Translator:
        """With the recipe's way to search, where `search` says nothing else."""
        search = search or Search()
        return Translator(
            self.model,
            *self.tokenizers,
            search.decoder(self.recipe.decoding),
            search.max_length or self.recipe.data.max_length,
            jit_compile,
        )

    def card(self) -> str:
        """What is to be known of the model, written from its run."""
        scores = json.loads((self.folder / "test.json").read_text())
        lines = [f"# {self.recipe.model.name}, {self.model.count_params():,} parameters", ""]
        lines += [f"Data: {' '.join(self.recipe.data.train)}", "", "Scores on the test set:", ""]
        lines += [f"- {name}: {value}" for name, value in scores.items()]
        recipe = json.dumps(dataclasses.asdict(self.recipe), indent=2)
        return "\n".join([*lines, "", "Recipe:", "", "```json", recipe, "```", ""])


def load_run(folder) -> Run:
    """The recipe, model and tokenizers of a run folder."""
    folder = Path(folder)
    if not (folder / "model.keras").exists():
        raise ValueError(f"{folder} holds no finished run: there is no {folder / 'model.keras'}")
    recipe = load_recipe(folder / "recipe.json")
    model = keras.saving.load_model(folder / "model.keras", compile=False)
    return Run(folder, recipe, model, load_tokenizers(folder / "tokenizer"))


def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of the source and of the target; the same one twice where both sides share a vocabulary."""
    source, target = (Tokenizer.load(folder / f"{side}.model") for side in SIDES)
    return source, source if source.model == target.model else target
