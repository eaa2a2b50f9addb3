"""The command `tfx-transformer`."""

import sys

import tyro

from tfx_transformer import __version__
from tfx_transformer.quiet import import_tensorflow


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


def main(arguments: list[str] | None = None) -> None:
    """Entry point; each command imports TensorFlow only when it runs, so help is quick."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        print(f"tfx-transformer {__version__}")
        return
    tyro.extras.subcommand_cli_from_dict(
        {"demo": demo, "layers": layers},
        prog="tfx-transformer",
        description="Attention models on Keras 3 and TensorFlow.",
        args=arguments,
    )


if __name__ == "__main__":
    main()
