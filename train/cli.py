"""The command `tfx-transformer`. Each command imports TensorFlow only when it runs."""

import json
import sys
from collections.abc import Callable
from typing import Annotated, Literal

import tyro

from tfx_transformer import __version__
from tfx_transformer.train import RECIPES
from tfx_transformer.train.commands_image import caption, classify, read_file
from tfx_transformer.train.commands_text import classify_text, generate, translate
from tfx_transformer.train.searching import Search
from tfx_transformer.train.start import start_tensorflow

Searching = Annotated[Search, tyro.conf.arg(name="")]
AS_THE_RECIPE = Search()


def demo(folder: str = "runs/demo") -> None:
    """Train, export, serve and look at a small translator and a small classifier.

    Emoji names, English → Korean, and handwritten digits; both are embedded in packages.

    Args:
        folder: where everything goes.
    """
    start_tensorflow()
    from tfx_transformer.train.demo import run

    run(folder)


def layers() -> None:
    """List the layers that can be chosen by name."""
    start_tensorflow()
    from tfx_transformer.layers import ACTIVATION, ATTENTION, NORM, POSITION

    choices = {"attention": ATTENTION, "position": POSITION, "norm": NORM, "activation": ACTIVATION}
    for what, names in choices.items():
        print(f"{what + ':':<12}{', '.join(sorted(names))}")


def list_models(as_json: Annotated[bool, tyro.conf.arg(name="json")] = False) -> None:
    """List the models: variants, parameters, papers, and whose weights they can take.

    Args:
        as_json: for programs.
    """
    start_tensorflow()
    from tfx_transformer.train.listing import show

    print(show(as_json))


def evaluate(
    run: tyro.conf.Positional[str], data: tuple[str, ...] = (), search: Searching = AS_THE_RECIPE
) -> None:
    """Score a run.

    A translator: sacreBLEU with its signature, chrF, lower-cased tokenised BLEU, perplexity. A
    classifier: accuracy, top-5 accuracy, loss, calibration error, the accuracy of each class, and
    a picture of the confusions in the run's folder. A language model: perplexity, accuracy, bits
    per character; a model that fills in blanks: accuracy and perplexity of these. A model that
    describes pictures: BLEU-1 to 4 against all captions, chrF.

    Args:
        run: the run's folder.
        data: another test set than the recipe's: a source, two files of sentences, or pictures,
            their captions and, if not a tenth of them are meant, a file of names.
    """
    start_tensorflow()
    from tfx_transformer.train.evaluation import evaluate

    print(json.dumps(evaluate(run, data, search), indent=2))


def export(
    run: tyro.conf.Positional[str],
    to: str,
    format: Literal["saved_model", "ctranslate2", "litert", "onnx"] = "saved_model",
    ids_only: bool = False,
    jit_compile: bool = False,
    top_k: int | None = None,
    search: Searching = AS_THE_RECIPE,
) -> None:
    """Write a run's model as a SavedModel.

    A translator takes and gives strings, with the search inside; a language model too. A classifier
    takes the bytes of pictures, or texts, and gives names of classes; a captioner takes pictures
    and gives sentences.

    Args:
        run: the run's folder; or one of Hugging Face with a Marian translator, or hf:OWNER/NAME.
        to: the new folder.
        format: a SavedModel; of a translator also what CTranslate2 runs, without the search; of a
            classifier of pictures also what LiteRT runs, in 8 bits, or ONNX, without the decoding
            of files.
        ids_only: of a translator: token ids in and out; needs nothing but TensorFlow to load.
        jit_compile: of a translator or classifier of pictures: let XLA compile the model: faster
            once it has seen a shape, seconds before.
        top_k: of a classifier: how many classes are named, 5 by default; of a language model: out
            of how many tokens it draws.
    """
    start_tensorflow()
    from tfx_transformer.convert.hub import find_folder
    from tfx_transformer.convert.marian import is_marian
    from tfx_transformer.export import inspect_export
    from tfx_transformer.train.exporting import export_run
    from tfx_transformer.train.folder import load_run
    from tfx_transformer.train.foreign import export_foreign

    source = find_folder(run)
    if format == "ctranslate2" or is_marian(source):
        folder = export_foreign(source, to, format, search, ids_only, jit_compile)
    else:
        folder = export_run(load_run(source), to, search, ids_only, jit_compile, top_k, format)
    print(folder)
    if format == "saved_model":
        print(inspect_export(folder))


def inspect(folder: tyro.conf.Positional[str]) -> None:
    """Show the signatures of a SavedModel, and which of its ops need tensorflow-text."""
    start_tensorflow()
    from tfx_transformer.export import inspect_export

    print(inspect_export(folder))


def compare(runs: tyro.conf.Positional[tuple[str, ...]], to: str = "runs/comparison") -> None:
    """Score translators of one test set side by side, also by the length of their sentences.

    Args:
        runs: their folders.
        to: where the table and the picture go.
    """
    start_tensorflow()
    from tfx_transformer.train.comparison import compare

    table, picture = compare(runs, to)
    print(f"{table}\n{picture}")


def plot(
    run: tyro.conf.Positional[str],
    what: tyro.conf.Positional[str],
    to: str | None = None,
    layer: int = -1,
    word: str | None = None,
    format: Literal["png", "svg", "pdf"] = "png",
) -> None:
    """Draw what a run does with a sentence, or with a picture.

    Of a translator: the alignment with its translation, all heads of a layer, what one word attends
    to, the positions and the mask. Of a classifier: the attention rollout over the picture, the
    heads of a layer, how far they look, the similarity of positions and the first filters. Of a
    captioner: the picture once for each word, with the regions it was said of. Of a model of texts:
    the heads of a layer. Of all: the learning curves.

    Args:
        run: the run's folder.
        what: a text, or a picture file.
        to: folder of the pictures; `pictures` in the run's folder if None.
        layer: which block; -1 is the last.
        word: of a translator: whose attention to draw; the longest if None.
        format: of the files.
    """
    start_tensorflow()
    from tfx_transformer.train.caption_pictures import draw_caption
    from tfx_transformer.train.folder import CaptionRun, ClassifyRun, TranslateRun, load_run
    from tfx_transformer.train.image_pictures import draw_image
    from tfx_transformer.train.pictures import draw
    from tfx_transformer.train.text_pictures import draw_text

    loaded = load_run(run)
    if isinstance(loaded, TranslateRun):
        paths = draw(loaded, what, to, layer, word, format)
    elif isinstance(loaded, CaptionRun):
        paths = draw_caption(loaded, read_file(what), to, format)
    elif isinstance(loaded, ClassifyRun):
        paths = draw_image(loaded, read_file(what), to, layer, format)
    else:
        paths = draw_text(loaded, what, to, layer, format)
    for path in paths:
        print(path)


def train_command(name: str):
    """The command that trains a recipe, with an option for each of its fields."""
    kind = type(RECIPES[name])

    def train(
        recipe: Annotated[kind, tyro.conf.arg(name="")] = RECIPES[name],  # type: ignore[valid-type]
        folder: str = f"runs/{name}",
    ) -> None:
        start_tensorflow()
        from tfx_transformer.train.run import train

        print(json.dumps(train(recipe, folder), indent=2))
        print(f"next: tfx-transformer export {folder} --to {folder}/export")

    train.__doc__ = f"Train {name}, or go on with it after a stop."
    return train


def train() -> None:
    """Train a recipe; `tfx-transformer train --help` lists them."""


COMMANDS: dict[str, Callable[..., None]] = {
    "caption": caption,
    "classify": classify,
    "classify-text": classify_text,
    "compare": compare,
    "demo": demo,
    "evaluate": evaluate,
    "export": export,
    "generate": generate,
    "inspect": inspect,
    "layers": layers,
    "list": list_models,
    "plot": plot,
    "train": train,
    "translate": translate,
}


def main(arguments: list[str] | None = None) -> None:
    """Entry point."""
    arguments = sys.argv[1:] if arguments is None else arguments
    commands, prog = COMMANDS, "tfx-transformer"
    about = "Attention models on Keras 3 and TensorFlow."
    if arguments[:1] == ["train"]:  # a second level: one command for each recipe
        commands = {name: train_command(name) for name in RECIPES}
        prog, about, arguments = f"{prog} train", "Train a recipe.", arguments[1:]
    if arguments == ["--version"]:
        print(f"tfx-transformer {__version__}")
        return
    try:
        tyro.extras.subcommand_cli_from_dict(commands, prog=prog, description=about, args=arguments)
    except (ValueError, FloatingPointError, OSError, ImportError) as error:
        sys.exit(f"{prog}: {error}")  # a wrong value in one line, not in a page of frames


if __name__ == "__main__":
    main()
