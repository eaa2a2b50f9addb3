"""Export of pipelines, and loading of exports.

    export(translator, "served")                    # a SavedModel
    export(classifier, "phone", format="litert")
    load("served")("Good morning.")
    export_version(translator, "models", "en_de")   # models/en_de/1, for TensorFlow Serving

A format is a module with `KINDS`, the pipelines that it supports, and `write(pipeline, folder)`,
which may return text for README.md; `load(folder, kind, options)`; and, if there are signatures,
`inspect(folder)`. Every export contains export.json (kind, format, options, versions) and
README.md.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tfx_transformer import __version__
from tfx_transformer.checks import check_choice
from tfx_transformer.export import ctranslate2, litert, onnx, saved_model
from tfx_transformer.export.saved_model import ExportedPipeline
from tfx_transformer.files import lock_folder, read_json, whole_folder
from tfx_transformer.pipelines.base import Pipeline
from tfx_transformer.serving import tensorflow_serving

FORMATS = {
    "ctranslate2": ctranslate2,
    "litert": litert,
    "onnx": onnx,
    "saved_model": saved_model,
}
INFO = "export.json"


def export(
    pipeline: Pipeline, folder, card: str = "", format: str = "saved_model", **options
) -> Path:
    """Writes a pipeline to a new folder, completely or not at all.

    Args:
        pipeline: what to export; its decoder and lengths are part of the export.
        folder: must not exist yet.
        card: a text about the model, for README.md in the folder.
        format: a name in FORMATS.
        options: of the format's `write`.
    """
    check_choice(*FORMATS, format=format)
    if not isinstance(pipeline, Pipeline):
        raise ValueError(f"pipeline must be a Pipeline; got {type(pipeline).__name__}")
    check_kind(pipeline.kind, format)
    if format == "saved_model":
        options = saved_model.complete(pipeline, **options)
    info = {
        "kind": pipeline.kind,
        "format": format,
        "options": pipeline.options() | options,
        "versions": {"tfx_transformer": __version__, "tensorflow": version("tensorflow")},
    }
    with whole_folder(folder) as temporary:
        usage = FORMATS[format].write(pipeline, temporary, **options)
        card = "\n".join(part.strip("\n") + "\n" for part in (card, usage or "") if part)
        (temporary / INFO).write_text(json.dumps(info, indent=2, ensure_ascii=False), "utf-8")
        (temporary / "README.md").write_text(card, "utf-8")
    return Path(folder)


def export_version(pipeline: Pipeline, folder, name: str, card: str = "", **options) -> Path:
    """Writes a SavedModel as the next version of a model to a folder for TensorFlow Serving.

    A server that watches the folder sees a version completely or not at all.

    Args:
        pipeline: as in `export`.
        folder: new, or written by this function before; it may hold several models.
        name: of the model.
        card, options: as in `export`.
    """
    folder = Path(folder)
    tensorflow_serving.check_models_folder(folder, name)
    with lock_folder(folder) if folder.exists() else whole_folder(folder) as temporary:
        models = temporary or folder
        version = export(pipeline, tensorflow_serving.next_version(models / name), card, **options)
        tensorflow_serving.write_settings(models)
    return folder / name / version.name


def check_kind(kind: str, format: str) -> None:
    """Raises if the format does not support this kind of pipeline."""
    if kind not in FORMATS[format].KINDS:
        known = " or ".join(name for name, module in FORMATS.items() if kind in module.KINDS)
        raise ValueError(f"the format of a {kind} must be {known}; got {format}")


def is_export(folder) -> bool:
    """Whether `export` wrote the folder."""
    return (Path(folder) / INFO).exists()


def read_info(folder: Path) -> dict[str, Any]:
    """The content of export.json."""
    info = read_json(folder / INFO)
    missing = [name for name in ("kind", "format", "options") if name not in info]
    if missing:
        raise ValueError(f"{folder / INFO} has no {', '.join(missing)}")
    return info


def inspect(folder) -> str:
    """The signatures of an export, or of any SavedModel: names, types and shapes."""
    folder, format = Path(folder), "saved_model"
    if is_export(folder):
        format = read_info(folder)["format"]
        check_choice(*FORMATS, format=format)
    module: Any = FORMATS[format]
    if not hasattr(module, "inspect"):
        raise ValueError(f"{folder} has the format {format}, which has no signatures to show")
    return module.inspect(folder)


def load(folder, kind: str | None = None) -> Any:
    """The exported pipeline, called as the original: `load(folder)("Good morning.")`.

    It must be of a kind of pipeline, if one is given.
    """
    folder = Path(folder)
    if not is_export(folder):
        raise ValueError(f"{folder} is not an export of this package: there is no {folder / INFO}")
    info = read_info(folder)
    if kind is not None and info["kind"] != kind:
        raise ValueError(f"{folder} must be an export of a {kind}; it holds a {info['kind']}")
    check_choice(*FORMATS, format=info["format"])
    if info["options"].get("ids_only"):
        raise ValueError(f"{folder} takes token ids, not text: it was exported with ids_only")
    return FORMATS[info["format"]].load(folder, info["kind"], info["options"])


__all__ = [
    "FORMATS",
    "ExportedPipeline",
    "export",
    "export_version",
    "inspect",
    "is_export",
    "load",
]
