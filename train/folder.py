"""The run folder: what an experiment leaves behind, and how it is read again.

`recipe.json versions.json checkpoints/ samples/ tensorboard/ metrics.jsonl`, the `tokenizer/` of
what speaks, the `classes.json` of a classifier, the `skipped.json` of what reads pictures and, in
the end, `model.keras test.json`.
"""

import dataclasses
import json
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import tfx_transformer.models  # noqa: F401  # so that Keras knows their classes
from tfx_transformer import __version__
from tfx_transformer.captioner import Captioner
from tfx_transformer.classifier import Classifier
from tfx_transformer.data import Tokenizer
from tfx_transformer.data.wordpiece import WordPiece
from tfx_transformer.generator import Generator
from tfx_transformer.streaming import Stream
from tfx_transformer.text_classifier import TextClassifier
from tfx_transformer.train.recipe import CaptionRecipe, Recipe, TranslateRecipe
from tfx_transformer.train.recipe_file import load_recipe, save_recipe
from tfx_transformer.train.searching import Decoding, Search
from tfx_transformer.train.text_recipe import ClassifyTextRecipe, LanguageRecipe, MaskRecipe
from tfx_transformer.translator import Translator

SIDES = ("source", "target")
TEXT = "text.model"  # the tokenizer where there is but one side
FREE = ("steps", "decoding")  # fields of a recipe that may change from one call to the next


def check_folder(recipe: Recipe, folder: Path) -> None:
    """Refuses a folder that holds a run of another recipe.

    More steps, or another search, are no other recipe: the weights so far are the same. Without a
    checkpoint there is no run yet.
    """
    changed = changes(recipe, folder)
    if changed and any((folder / "checkpoints").glob("step_*.npz")):
        raise ValueError(
            f"{folder} holds a run of another recipe: {', '.join(changed)} changed; "
            "choose another folder, or remove this one"
        )


def changes(recipe: Recipe, folder: Path) -> list[str]:
    """The fields in which the recipe differs from the one in the folder."""
    path = folder / "recipe.json"
    if not path.exists():
        return []
    old, new = dataclasses.asdict(load_recipe(path)), dataclasses.asdict(recipe)
    names = {*old, *new} - {*FREE}
    return sorted(name for name in names if old.get(name) != new.get(name))


def open_folder(recipe: Recipe, folder: Path) -> None:
    """Makes the run folder, with the recipe and the versions in it."""
    if changes(recipe, folder):  # what a run that failed before its first checkpoint has left
        shutil.rmtree(folder / "tokenizer", ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    save_recipe(recipe, folder / "recipe.json")
    versions = {"tfx_transformer": __version__, "python": platform.python_version()}
    versions |= {"tensorflow": tf.__version__, "keras": keras.__version__}
    versions["sentencepiece"] = version("sentencepiece")  # whose vocabularies change with it
    (folder / "versions.json").write_text(json.dumps(versions, indent=2) + "\n")


def tell_skipped(folder: Path, splits: dict[str, Any]) -> None:
    """Keeps in the folder what could not be read of each split."""
    skipped = {split: data.skipped for split, data in splits.items()}
    text = json.dumps(skipped, indent=2, ensure_ascii=False)
    (folder / "skipped.json").write_text(text, "utf-8", "backslashreplace")


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    recipe: Any
    model: Any

    def card(self) -> str:
        """What is to be known of the model, written from its run."""
        scores = json.loads((self.folder / "test.json").read_text())
        lines = [f"# {self.recipe.model.name}, {self.model.count_params():,} parameters", ""]
        lines += [f"Data: {self.recipe.data}", "", "Scores on the test set:", ""]
        lines += [f"- {name}: {value}" for name, value in scores.items()]
        recipe = json.dumps(dataclasses.asdict(self.recipe), indent=2)
        return "\n".join([*lines, "", "Recipe:", "", "```json", recipe, "```", ""])


@dataclass(frozen=True)
class TranslateRun(Run):
    """Of a translator."""

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


@dataclass(frozen=True)
class ClassifyRun(Run):
    """Of a classifier."""

    class_names: list[str]

    def classifier(self, top_k: int = 5, jit_compile: bool = False) -> Classifier:
        """It names the `top_k` likeliest classes."""
        own = self.recipe.data
        return Classifier(
            self.model, self.class_names, own.crop_ratio, own.normalisation, top_k, jit_compile
        )


@dataclass(frozen=True)
class CaptionRun(Run):
    """Of a model that describes pictures."""

    tokenizer: Tokenizer

    def captioner(self, search: Search | None = None) -> Captioner:
        """With the recipe's way to search, where `search` says nothing else."""
        search, data = search or Search(), self.recipe.data
        return Captioner(
            self.model,
            self.tokenizer,
            search.decoder(self.recipe.decoding),
            search.max_length or data.max_length,
            normalisation=data.normalisation,
        )


@dataclass(frozen=True)
class LanguageRun(Run):
    """Of a language model."""

    tokenizer: Tokenizer

    def generator(self, search: Search | None = None, top_k: int | None = None) -> Generator:
        """With the recipe's way to draw, where `search` and `top_k` say nothing else."""
        search, own = search or Search(), self.recipe.decoding
        own = own if top_k is None else dataclasses.replace(own, top_k=top_k)
        return Generator(self.model, self.tokenizer, search.decoder(own), search.max_length)

    def stream(self, decoding: Decoding | None = None, seed: int | None = None) -> Stream:
        """For one text, piece by piece; with the recipe's way to draw if None is given."""
        spec = (decoding or self.recipe.decoding).spec() | {"seed": seed}
        spec = spec if spec["kind"] == "sample" else {"kind": spec["kind"]}
        return Stream(self.model, self.tokenizer, spec)


@dataclass(frozen=True)
class MaskRun(Run):
    """Of a model that fills in blanks."""

    tokenizer: Tokenizer


@dataclass(frozen=True)
class ClassifyTextRun(Run):
    """Of a classifier of texts."""

    tokenizer: Tokenizer | WordPiece
    class_names: list[str]

    def classifier(self, top_k: int = 5) -> TextClassifier:
        """It names the `top_k` likeliest classes."""
        length = self.recipe.data.max_length
        return TextClassifier(self.model, self.tokenizer, self.class_names, length, top_k)


NAMES = {
    TranslateRun: "translator",
    ClassifyRun: "classifier",
    CaptionRun: "captioner",
    LanguageRun: "language model",
    MaskRun: "model that fills in blanks",
    ClassifyTextRun: "text classifier",
}
AnyRun = TranslateRun | ClassifyRun | CaptionRun | LanguageRun | MaskRun | ClassifyTextRun


def load_run(folder) -> AnyRun:
    """The recipe and model of a run folder, and its tokenizers or class names."""
    folder = Path(folder)
    if not (folder / "model.keras").exists():
        raise ValueError(f"{folder} holds no finished run: there is no {folder / 'model.keras'}")
    recipe = load_recipe(folder / "recipe.json")
    model = keras.saving.load_model(folder / "model.keras", compile=False)
    if isinstance(recipe, TranslateRecipe):
        return TranslateRun(folder, recipe, model, load_tokenizers(folder / "tokenizer"))
    if isinstance(recipe, CaptionRecipe):
        return CaptionRun(folder, recipe, model, Tokenizer.load(folder / "tokenizer/target.model"))
    if isinstance(recipe, LanguageRecipe):
        return LanguageRun(folder, recipe, model, Tokenizer.load(folder / "tokenizer" / TEXT))
    if isinstance(recipe, MaskRecipe):
        return MaskRun(folder, recipe, model, Tokenizer.load(folder / "tokenizer" / TEXT))
    class_names = json.loads((folder / "classes.json").read_text())
    if isinstance(recipe, ClassifyTextRecipe):
        tokenizer = load_text_tokenizer(folder / "tokenizer")
        return ClassifyTextRun(folder, recipe, model, tokenizer, class_names)
    return ClassifyRun(folder, recipe, model, class_names)


def load_translate_run(folder) -> TranslateRun:
    """As `load_run`, where only a translator will do."""
    return check_kind(load_run(folder), TranslateRun)


def load_classify_run(folder) -> ClassifyRun:
    """As `load_run`, where only a classifier will do."""
    return check_kind(load_run(folder), ClassifyRun)


def load_caption_run(folder) -> CaptionRun:
    """As `load_run`, where only a model that describes pictures will do."""
    return check_kind(load_run(folder), CaptionRun)


def load_language_run(folder) -> LanguageRun:
    """As `load_run`, where only a language model will do."""
    return check_kind(load_run(folder), LanguageRun)


def load_mask_run(folder) -> MaskRun:
    """As `load_run`, where only a model that fills in blanks will do."""
    return check_kind(load_run(folder), MaskRun)


def load_classify_text_run(folder) -> ClassifyTextRun:
    """As `load_run`, where only a classifier of texts will do."""
    return check_kind(load_run(folder), ClassifyTextRun)


def check_kind(run, kind):
    if not isinstance(run, kind):
        raise ValueError(f"{run.folder} holds a {NAMES[type(run)]}, not a {NAMES[kind]}")
    return run


def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Of the source and of the target; the same one twice where both sides share a vocabulary."""
    source, target = (Tokenizer.load(folder / f"{side}.model") for side in SIDES)
    return source, source if source.model == target.model else target


def load_text_tokenizer(folder: Path) -> Tokenizer | WordPiece:
    """Of a classifier: one of our own, or the vocabulary of a BERT."""
    return Tokenizer.load(folder / TEXT) if (folder / TEXT).exists() else WordPiece.load(folder)


def stored_tokenizer(path: Path, make: Callable[[], Tokenizer]) -> Tokenizer:
    """Made at the first call, read from its file later."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make().save(path)
    return Tokenizer.load(path)
