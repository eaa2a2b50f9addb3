"""The command `tfx-transformer`. Each command imports TensorFlow only when it runs."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal

import tyro

from tfx_transformer import __version__
from tfx_transformer.memory import keep_memory
from tfx_transformer.quiet import import_tensorflow
from tfx_transformer.train import RECIPES
from tfx_transformer.train.recipe import Search

Searching = Annotated[Search, tyro.conf.arg(name="")]
AS_THE_RECIPE = Search()


def start_tensorflow() -> None:
    """Without its notes, and with memory that is kept."""
    keep_memory()
    import_tensorflow()


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


def evaluate(
    run: tyro.conf.Positional[str], data: tuple[str, ...] = (), search: Searching = AS_THE_RECIPE
) -> None:
    """Score a run.

    A translator: sacreBLEU with its signature, chrF, lower-cased tokenised BLEU, perplexity. A
    classifier: accuracy, top-5 accuracy, loss, calibration error, the accuracy of each class, and
    a picture of the confusions in the run's folder.

    Args:
        run: the run's folder.
        data: another test set than the recipe's.
    """
    start_tensorflow()
    from tfx_transformer.train.evaluation import evaluate

    print(json.dumps(evaluate(run, data, search), indent=2))


def export(
    run: tyro.conf.Positional[str],
    to: str,
    ids_only: bool = False,
    jit_compile: bool = False,
    top_k: int = 5,
    search: Searching = AS_THE_RECIPE,
) -> None:
    """Write a run's model as a SavedModel.

    A translator takes and gives strings, with the search inside; a classifier takes the bytes of
    pictures and gives names of classes.

    Args:
        run: the run's folder.
        to: the new folder.
        ids_only: of a translator: token ids in and out; needs nothing but TensorFlow to load.
        jit_compile: let XLA compile the model: faster once it has seen a shape, seconds before.
        top_k: of a classifier: how many classes are named.
    """
    start_tensorflow()
    from tfx_transformer.export import export_classifier, export_translator, inspect_export
    from tfx_transformer.train.folder import TranslateRun, load_run

    loaded = load_run(run)
    if isinstance(loaded, TranslateRun):
        translator = loaded.translator(search, jit_compile)
        folder = export_translator(translator, to, loaded.card(), ids_only)
    else:
        folder = export_classifier(loaded.classifier(top_k, jit_compile), to, loaded.card())
    print(f"{folder}\n{inspect_export(folder)}")


def inspect(folder: tyro.conf.Positional[str]) -> None:
    """Show the signatures of a SavedModel, and which of its ops need tensorflow-text."""
    start_tensorflow()
    from tfx_transformer.export import inspect_export

    print(inspect_export(folder))


def translate(
    model: tyro.conf.Positional[str],
    text: tyro.conf.Positional[tuple[str, ...]],
    n_best: int = 1,
    alignment: bool = False,
    batch_size: int = 64,
) -> None:
    """Translate sentences, or the lines of standard input as they come, in order.

    Args:
        model: a run's folder, or an exported one.
        text: sentences; none reads standard input.
        n_best: above 1, so many translations of each, with their scores.
        alignment: show which words of the source each word was made from.
        batch_size: lines that are translated together.
    """
    start_tensorflow()
    from tfx_transformer.lines import translate_lines
    from tfx_transformer.plots import show_attention
    from tfx_transformer.train.serving import load_translate

    lines = iter(text) if text else read_lines()
    ahead = 1 if not text and sys.stdin.isatty() else 16 * batch_size
    for found in translate_lines(load_translate(model, n_best), lines, batch_size, ahead):
        if n_best == 1:
            print(found.text, flush=True)
        for candidate, score in found.n_best[:n_best] if n_best > 1 else ():
            print(f"{score:.4f}\t{candidate}", flush=True)
        if alignment:
            print(show_attention(found.alignment, found.pieces, found.source_pieces), flush=True)


def read_lines() -> Iterator[str]:
    """The lines of standard input."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"line {number} of standard input is not UTF-8: {error}") from error


def classify(
    model: tyro.conf.Positional[str],
    files: tyro.conf.Positional[tuple[str, ...]],
    top_k: int = 1,
    batch_size: int = 32,
) -> None:
    """Name what pictures show: a line for each, with the class and its share.

    Args:
        model: a run's folder, or an exported one.
        files: JPEG, PNG, GIF or BMP.
        top_k: above 1, so many classes for each, the likeliest first.
        batch_size: pictures that are classified together.
    """
    start_tensorflow()
    from tfx_transformer.train.serving import load_classify

    if not files:
        raise ValueError("files must name at least one picture")
    contents = [read_file(file) for file in files]  # before any answer: a missing one is told first
    function = load_classify(model, top_k)
    for i in range(0, len(files), batch_size):
        found = function(contents[i : i + batch_size])
        for j, file in enumerate(files[i : i + batch_size]):
            pairs = zip(found["labels"][j].numpy(), found["scores"][j].numpy(), strict=True)
            best = [f"{label.decode()} {score:.3f}" for label, score in pairs][:top_k]
            print("\t".join([file, *(best if found["is_readable"][j] else ["unreadable"])]))


def read_file(path: str) -> bytes:
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    return file.read_bytes()


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
    heads of a layer, how far they look, the similarity of positions and the first filters. Of
    both: the learning curves.

    Args:
        run: the run's folder.
        what: a sentence in the source language, or a picture file.
        to: folder of the pictures; `pictures` in the run's folder if None.
        layer: which block; -1 is the last.
        word: of a translator: whose attention to draw; the longest if None.
        format: of the files.
    """
    start_tensorflow()
    from tfx_transformer.train.folder import TranslateRun, load_run
    from tfx_transformer.train.image_pictures import draw_image
    from tfx_transformer.train.pictures import draw

    loaded = load_run(run)
    if isinstance(loaded, TranslateRun):
        paths = draw(loaded, what, to, layer, word, format)
    else:
        paths = draw_image(loaded, read_file(what), to, layer, format)
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
    "classify": classify,
    "demo": demo,
    "evaluate": evaluate,
    "export": export,
    "inspect": inspect,
    "layers": layers,
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
    except (ValueError, FloatingPointError, FileNotFoundError) as error:
        sys.exit(f"{prog}: {error}")  # a wrong value in one line, not in a page of frames


if __name__ == "__main__":
    main()
