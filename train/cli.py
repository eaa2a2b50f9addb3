"""The command `tfx-transformer`: it finds the command and reports errors in one line."""

import json
import os
import signal
import sys
from pathlib import Path

import tyro

import tfx_transformer
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train import commands
from tfx_transformer.train.parsing import (
    PROG,
    check_command,
    check_flags,
    field_names,
    parse_train,
    recipe_list,
)
from tfx_transformer.train.tasks import load_commands

COMMANDS = commands.COMMANDS | load_commands()
LAUNCH = """Train with several processes on this machine: launch [OPTIONS] train RECIPE …

The logs of the workers are in the folder `workers` of the run; the first one is also shown. If a
worker dies or is frozen, all of them start again from the last checkpoint."""


def run_train(arguments: list[str]) -> None:
    """`train RECIPE …`, or the list of recipes."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(recipe_list())
        return
    recipe, folder = parse_train(arguments)
    recipe.check()
    start_tensorflow()
    from tfx_transformer.train.run import train

    print(json.dumps(train(recipe, folder), indent=2))
    print(f"next: {PROG} export {folder} --to served/{Path(folder).name}")


def run_launch(arguments: list[str]) -> None:
    """`launch OPTIONS train RECIPE …`."""
    from tfx_transformer.train.launch.local import LaunchOptions, launch

    index = arguments.index("train") if "train" in arguments else len(arguments)
    own, arguments = arguments[:index], arguments[index + 1 :]
    check_flags(own, ["help", *field_names(LaunchOptions)])
    options = tyro.cli(LaunchOptions, prog=f"{PROG} launch", args=own, description=LAUNCH)
    if not arguments:
        raise ValueError(f"launch must be followed by train RECIPE …; see {PROG} launch --help")
    arguments = [*arguments, "--strategy", "multiworker"]
    recipe, folder = parse_train(arguments)
    recipe.check()
    if options.engine == "ray":
        from tfx_transformer.train.launch.ray_train import launch as launch_ray

        sys.exit(launch_ray(arguments, Path(folder), options))
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "train", *arguments]
    sys.exit(launch(command, Path(folder), options))


def launch() -> None:
    """Train with several processes; `tfx-transformer launch --help` lists the options."""


def train() -> None:
    """Train a recipe; `tfx-transformer train --help` lists them."""


def main(arguments: list[str] | None = None) -> None:
    """Entry point."""
    arguments = sys.argv[1:] if arguments is None else arguments
    prog = f"{PROG} train" if arguments[:1] == ["train"] else PROG
    if arguments == ["--version"]:
        print(f"{PROG} {tfx_transformer.__version__}")
        return
    try:
        if arguments[:1] == ["train"]:
            run_train(arguments[1:])
            return
        if arguments[:1] == ["launch"]:
            run_launch(arguments[1:])
            return
        functions = dict(sorted((COMMANDS | {"launch": launch, "train": train}).items()))
        check_command(arguments, functions)
        tyro.extras.subcommand_cli_from_dict(
            functions,
            prog=PROG,
            description="Attention models on Keras 3 and TensorFlow.",
            args=arguments,
        )
    except BrokenPipeError:  # nobody reads standard output any more, as in `| head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt as error:
        print(f"{prog}: {error or 'stopped'}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 128 + signal.SIGINT))
    except (ValueError, FloatingPointError, OSError, ImportError) as error:
        sys.exit(f"{prog}: {error}")  # one line instead of a traceback


if __name__ == "__main__":
    main()
