"""The command `tfx-transformer`. Each command imports TensorFlow only when it runs."""

import json
import sys
from typing import Annotated

import tyro

from tfx_transformer import __version__
from tfx_transformer.quiet import import_tensorflow
from tfx_transformer.train import RECIPES
from tfx_transformer.train.recipe import Recipe


def demo(folder: str = "runs/demo", steps: int = 600, seed: int = 0) -> None:
    """Train one block to copy letters and draw where it looks.

    Args:
        folder: where the picture goes.
        steps: batches of 64 to train on.
        seed: of the weights and the data.
    """
    import_tensorflow()
    from tfx_transformer.train.demo import run

    run(folder, steps, seed)


def layers() -> None:
    """List the layers that can be chosen by name."""
    import_tensorflow()
    from tfx_transformer.layers import ACTIVATION, ATTENTION, NORM, POSITION

    choices = {"attention": ATTENTION, "position": POSITION, "norm": NORM, "activation": ACTIVATION}
    for what, names in choices.items():
        print(f"{what + ':':<12}{', '.join(sorted(names))}")


def evaluate(run: tyro.conf.Positional[str], data: tuple[str, ...] = ()) -> None:
    """Score a run: sacreBLEU with its signature, chrF, perplexity.

    Args:
        run: the run's folder.
        data: another test set than the recipe's.
    """
    import_tensorflow()
    from tfx_transformer.train.run import evaluate

    print(json.dumps(evaluate(run, data), indent=2))


def export(
    run: tyro.conf.Positional[str], to: str, ids_only: bool = False, jit_compile: bool = False
) -> None:
    """Write a run's model as a SavedModel: strings in, strings out, with the search inside.

    Args:
        run: the run's folder.
        to: the new folder.
        ids_only: token ids in and out; needs nothing but TensorFlow to load.
        jit_compile: let XLA compile decoding: faster once it has seen a shape, seconds before.
    """
    import_tensorflow()
    from tfx_transformer.export import export_translator, inspect_export
    from tfx_transformer.train.run import load_run

    run_ = load_run(run)
    translator = run_.translator(jit_compile=jit_compile)
    folder = export_translator(translator, to, run_.card(), ids_only)
    print(f"{folder}\n{inspect_export(folder)}")


def inspect(folder: tyro.conf.Positional[str]) -> None:
    """Show the signatures of a SavedModel, and which of its ops need tensorflow-text."""
    import_tensorflow()
    from tfx_transformer.export import inspect_export

    print(inspect_export(folder))


def translate(run: tyro.conf.Positional[str], text: tyro.conf.Positional[tuple[str, ...]]) -> None:
    """Translate sentences, or the lines of standard input, in order.

    Args:
        run: the run's folder.
        text: sentences; none reads standard input.
    """
    import_tensorflow()
    from tfx_transformer.train.run import load_run

    translator = load_run(run).translator()
    lines = list(text) or [line.rstrip("\n") for line in sys.stdin]
    print("\n".join(translator(lines)))


def train_command(name: str):
    """The command that trains a recipe, with an option for each of its fields."""

    def train(
        recipe: Annotated[Recipe, tyro.conf.arg(name="")] = RECIPES[name],
        folder: str = f"runs/{name}",
    ) -> None:
        import_tensorflow()
        from tfx_transformer.train.run import train

        print(json.dumps(train(recipe, folder), indent=2))
        print(f"next: tfx-transformer export {folder} --to {folder}/export")

    train.__doc__ = f"Train {name}, or go on with it after a stop."
    return train


COMMANDS = {
    "demo": demo,
    "evaluate": evaluate,
    "export": export,
    "inspect": inspect,
    "layers": layers,
    "translate": translate,
}


def main(arguments: list[str] | None = None) -> None:
    """Entry point."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"tfx-transformer {__version__}")
    elif arguments[:1] == ["train"]:
        recipes = {name: train_command(name) for name in RECIPES}
        run(recipes, "tfx-transformer train", "Train a recipe.", arguments[1:])
    else:
        about = "Attention models on Keras 3 and TensorFlow."
        run(COMMANDS | {"train": train_help}, "tfx-transformer", about, arguments)


def train_help() -> None:
    """Train a recipe; see `tfx-transformer train --help`."""


def run(commands, prog, description, arguments) -> None:
    """Parses and runs; a wrong value is told in one line, not by a page of frames."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands, prog=prog, description=description, args=arguments
        )
    except ValueError as error:
        sys.exit(f"{prog}: {error}")


if __name__ == "__main__":
    main()
