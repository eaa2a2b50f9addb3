"""The commands that are not of one task. Each imports TensorFlow only when it runs."""

import json
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import tyro

import tfx_transformer
from tfx_transformer.checks import is_installed, missing_package
from tfx_transformer.files import check_exists, check_new
from tfx_transformer.runtime import keep_compiled, start_tensorflow
from tfx_transformer.serving.options import AccessOptions, RayOptions, ServingOptions, name_folders
from tfx_transformer.serving.supervisor import listen, supervise
from tfx_transformer.train.options import NO_OPTIONS, Options, RunFolder, given
from tfx_transformer.train.parsing import PROG

SERVING_OPTIONS, ACCESS_OPTIONS, RAY_OPTIONS = ServingOptions(), AccessOptions(), RayOptions()
EXPORT_FOLDER = Path(tfx_transformer.__file__).parent / "export"  # each module is a format
FORMATS = tuple(module.name for module in pkgutil.iter_modules([str(EXPORT_FOLDER)]))


def demo(folder: str = "runs/demo") -> None:
    """Train, export and plot a small translator and a small classifier.

    The data are embedded: dates, amounts and lists, English → Korean, and handwritten digits.
    The exports are loaded in a process without this package.

    Args:
        folder: where everything is written.
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


def list_models(json: bool = False) -> None:
    """List the models: variants, parameters, papers and supported checkpoints.

    Args:
        json: print JSON.
    """
    from tfx_transformer.train.listing import show

    print(show(json))


def evaluate(run: RunFolder, data: tuple[str, ...] = (), options: Options = NO_OPTIONS) -> None:
    """Score a run on its test set or on other data.

    The scores depend on the task: for example BLEU, chrF and perplexity, or accuracy, calibration
    error and a plot of the confusion matrix.

    Args:
        run: the run folder.
        data: another test set: a source, two files of sentences, or images, captions and names.
        options: of the pipeline.
    """
    check_exists(run=run)
    start_tensorflow()
    from tfx_transformer.train.run import evaluate

    print(json.dumps(evaluate(run, data, **given(options)), indent=2))


def export(
    run: RunFolder,
    to: str,
    format: Literal[FORMATS] = "saved_model",  # type: ignore[valid-type]
    ids_only: bool = False,
    for_serving: bool = False,
    tokenizer: Literal["core", "text"] | None = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Export a trained model to a new folder.

    A SavedModel takes strings or the bytes of image files, and returns strings, or labels with
    scores: tokenizers, image decoding and the decoder are inside.

    Args:
        run: the run folder; or a Marian model of Hugging Face, also as hf:OWNER/NAME; or a language
            model of keras-hub, also as keras_hub:PRESET.
        to: the new folder.
        format: saved_model; ctranslate2 (translators; without the decoder's options); litert (image
            classifiers, 8-bit) or onnx (image classifiers), without the decoding of image files.
        ids_only: token ids instead of text.
        for_serving: add a version of the model, as TO/RUN/1, to a folder for TensorFlow Serving,
            with its settings and a compose file; the folder may exist.
        tokenizer: the tokenizer in a SavedModel: core uses ops of TensorFlow alone, text those of
            tensorflow-text, which must then be installed to load it. By default core if possible.
        options: of the pipeline. For classifiers, top_k is the number of classes to return.
    """
    check_exists(run=run)
    if not for_serving:
        check_new(to=to)
    elif format != "saved_model":
        raise ValueError(f"format must be saved_model with for_serving; got format={format}")
    start_tensorflow()
    from tfx_transformer.export import export, export_version, inspect
    from tfx_transformer.serving.tensorflow_serving import check_models_folder
    from tfx_transformer.train.run_folder import load_pipeline, load_run

    name = Path(run).resolve().name
    if for_serving:
        check_models_folder(Path(to), name)
    is_run = (Path(run) / "recipe.json").exists()
    card = load_run(run).card() if is_run else f"From {Path(run).name}.\n"
    pipeline = load_pipeline(run, **given(options))
    chosen = {"ids_only": ids_only or None, "tokenizer": tokenizer}
    chosen = {key: value for key, value in chosen.items() if value is not None}
    if for_serving:
        folder = export_version(pipeline, to, name, card, **chosen)
    else:
        folder = export(pipeline, to, card, format, **chosen)
    print(folder)
    if format == "saved_model":
        print(inspect(folder))
    if for_serving:
        print(f"next: cd {to} && docker compose up")
    elif format in ("saved_model", "ctranslate2") and not ids_only:
        print(f"next: {PROG} serve {folder}")


def inspect(folder: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FOLDER")]) -> None:
    """Show the signatures of an export, and which ops of a SavedModel need tensorflow-text.

    Args:
        folder: the export.
    """
    check_exists(folder=folder)
    start_tensorflow()
    from tfx_transformer.export import inspect

    print(inspect(folder))


RunFolders = Annotated[
    tyro.conf.Positional[tuple[str, ...]],
    tyro.conf.arg(metavar="RUN …", help_behavior_hint="(required)"),
]
ModelFolders = Annotated[
    tyro.conf.Positional[tuple[str, ...]],
    tyro.conf.arg(metavar="[NAME=]FOLDER …", help_behavior_hint="(required)"),
]


def compare(runs: RunFolders, to: str = "runs/comparison") -> None:
    """Compare translators with the same test set, also by the length of sentences.

    Args:
        runs: run folders.
        to: folder of the table and the picture.
    """
    if not runs:
        raise ValueError("runs must name at least one run folder")
    for run in runs:
        check_exists(run=run)
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_run

    first, *others = (load_run(folder) for folder in runs)
    for other in others:
        if type(other.task) is not type(first.task):
            raise ValueError(f"{other.folder} holds a {other.task.noun}, not a {first.task.noun}")
    table, picture = first.task.compare([first, *others], to)
    print(f"{table}\n{picture}")


def plot(
    run: RunFolder,
    what: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TEXT|FILE")],
    to: str | None = None,
    layer: int = -1,
    word: str | None = None,
    format: Literal["png", "svg", "pdf"] = "png",
) -> None:
    """Plot the learning curves and the attention of a trained model for one input.

    The plots depend on the task and the model: for example the alignment of a translation, the
    attention rollout of an image, the image regions of each word, the heads of a block.

    Args:
        run: the run folder.
        what: a text, or an image file.
        to: folder of the pictures; `pictures` in the run folder if None.
        layer: which block, counted from 1; -1 is the last.
        word: the source word whose attention is plotted; the longest if None.
        format: the format of the pictures.
    """
    check_exists(run=run)
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_run

    loaded = load_run(run)
    for path in loaded.task.plot(loaded, what, to=to, layer=layer, word=word, format=format):
        print(path)


def serve(
    models: ModelFolders,
    host: str = "127.0.0.1",
    port: int = 8501,
    grpc_port: int = 8500,
    engine: Literal["local", "ray"] = "local",
    options: Annotated[ServingOptions, tyro.conf.arg(name="")] = SERVING_OPTIONS,
    access: Annotated[AccessOptions, tyro.conf.arg(name="")] = ACCESS_OPTIONS,
    ray: Annotated[RayOptions, tyro.conf.arg(name="")] = RAY_OPTIONS,
) -> None:
    """Serve models over HTTP and gRPC, as TensorFlow Serving does, with a page to try them.

    A folder with sub-folders 1, 2, … has versions: the newest is served, also one that appears
    later. The server stops at SIGTERM or Ctrl-C when the requests in flight are answered.

    Args:
        models: run folders or exports, as FOLDER or NAME=FOLDER.
        host: the address to listen at; 0.0.0.0 listens at all addresses of this machine.
        port: the port for HTTP.
        grpc_port: the port for gRPC; 0 turns gRPC off. The engine ray has no gRPC.
        engine: one process here, or replicas on Ray: the cluster of RAY_ADDRESS, or this machine.
        options: batches and limits.
        access: who may call the server, and what is logged.
        ray: options of the engine ray.
    """
    folders = name_folders(models)
    if engine == "local" and ray != RAY_OPTIONS:
        raise ValueError("the options of replicas need engine=ray; got engine=local")
    for package in ("fastapi", "prometheus_client", "uvicorn", "tensorflow_serving"):
        if not is_installed(package):
            raise missing_package("serve", package.replace("tensorflow_s", "tensorflow-s"), "serve")
    if engine == "ray" and not is_installed("ray"):
        raise missing_package("engine=ray", "ray[serve]", "ray")
    access = access.with_environment()
    listener = listen(host, port)
    ready = supervise() if engine == "local" else None  # from here on in a child process
    keep_compiled()
    start_tensorflow()
    from tfx_transformer.serving.server import serve, start_log
    from tfx_transformer.serving.threads import choose_threads
    from tfx_transformer.train.run_folder import find_kind
    from tfx_transformer.train.run_folder import load_pipeline as load

    start_log()
    options = choose_threads(options, folders, find_kind)
    if ready is None:
        from tfx_transformer.serving.ray import build, run

        listener.close()  # the port is free: Ray listens
        run(build(folders, options, ray, load, access.at(host)), host, port, ray)
    else:
        serve(listener, folders, options, load, ready, grpc_port, access)


COMMANDS: dict[str, Callable[..., None]] = {
    "compare": compare,
    "demo": demo,
    "evaluate": evaluate,
    "export": export,
    "inspect": inspect,
    "layers": layers,
    "list": list_models,
    "plot": plot,
    "serve": serve,
}
