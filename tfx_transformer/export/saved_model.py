"""SavedModel export: loads with TensorFlow alone, without this package.

    import tensorflow as tf
    model = tf.saved_model.load(folder)
    model.signatures["serving_default"](tf.constant(["hello"]))["text"]

Any op of tensorflow-text in the file makes it necessary to load. There is none with the tokenizer
"core", nor with `ids_only`.
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_transformer.checks import check_choice
from tfx_transformer.files import reading
from tfx_transformer.pipelines import PIPELINES
from tfx_transformer.pipelines.base import Pipeline, Predictor
from tfx_transformer.pipelines.decode import decoder_options
from tfx_transformer.serving.tensorflow_serving import TEXT, TEXTS, write_warm_up

KINDS = tuple(PIPELINES)
TEXT_OPS = ("Sentencepiece", "FastBert", "FastWordpiece")  # prefixes of tensorflow-text
MAIN = ("width", "length_penalty", "temperature", "n_best")  # shown even if they are defaults
RESIZE = {
    "crop": "the central square, {ratio:.3g} of the shorter side",
    "pad": "with a border to make it square, then its central {ratio:.3g}",
    "squash": "both sides independently, its central {ratio:.3g}",
}
USAGE = """## How to use it

Run this in the folder of this file; it needs TensorFlow, not the package that wrote it:

```python
import tensorflow as tf{imports}

model = tf.saved_model.load(".")
outputs = model.signatures["serving_default"]({arguments})
for name, value in outputs.items():
    print(name, value.numpy())
```

{note}
"""


class Saved(tf.Module):
    """What the exported functions refer to: weights, tokenizers and seeds.

    The Keras model itself is left out: TensorFlow would trace it again with inputs of its own.
    """

    def __init__(self, model, resources=()):
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        self.resources = list(resources)


def complete(pipeline: Pipeline, tokenizer: str | None = None, **options) -> dict[str, Any]:
    """The options of `write` with the tokenizer: "core" if it can be, else "text"."""
    if options.get("ids_only") or not any(name.endswith("tokenizer") for name in vars(pipeline)):
        if tokenizer is not None:
            raise ValueError(f"tokenizer must be left out: the export has none; got {tokenizer=}")
        return options
    if tokenizer is None:
        try:
            pipeline.with_core_ops()
        except ValueError:
            tokenizer = "text"
    return options | {"tokenizer": tokenizer or "core"}


def write(pipeline: Pipeline, folder: Path, ids_only: bool = False, tokenizer: str = "text") -> str:
    """Writes the SavedModel, and returns how to use it.

    Args:
        pipeline: what to write.
        folder: where.
        ids_only: write only the function from token ids to ids or classes, and files of tokenizers.
        tokenizer: "text" for the ops of tensorflow-text, "core" for those of TensorFlow alone.
    """
    check_choice("core", "text", tokenizer=tokenizer)
    if tokenizer == "core":
        pipeline = pipeline.with_core_ops()
    signatures, resources = pipeline.signatures(), pipeline.resources()
    if ids_only:
        if "ids" not in signatures:
            raise ValueError(f"ids_only must be False for a {pipeline.kind}: it has no token ids")
        signatures = {"serving_default": signatures["ids"]}
        resources = [item for item in resources if isinstance(item, tf.Variable)]  # the seeds
    concrete = {name: function.get_concrete_function() for name, function in signatures.items()}
    tf.saved_model.save(Saved(pipeline.model, resources), str(folder), signatures=concrete)
    if ids_only:
        write_tokenizers(pipeline, folder / "tokenizer")
    write_warm_up(folder, signatures, example_ids(pipeline))
    names = [argument.name for argument in signatures["serving_default"].input_signature]
    examples, note = describe_input(pipeline, ids_only)
    pairs = zip(names, examples, strict=True)
    arguments = ", ".join(f"{name}=tf.constant({example})" for name, example in pairs)
    needs_text = bool(text_ops(folder))
    imports = "\nimport tensorflow_text  # registers the ops of the tokenizer" * needs_text
    usage = USAGE.format(imports=imports, arguments=arguments, note=note)
    return describe_decoder(pipeline) + usage


def describe_decoder(pipeline: Pipeline) -> str:
    """The decoder inside, which may differ from that of the recipe; "" if there is none."""
    decoder: Any = getattr(pipeline, "decoder", None)
    if decoder is None:
        return ""
    options = decoder_options(decoder)
    usual = {field.name: field.default for field in fields(decoder)}
    named = [options.pop("kind")] + [
        f"{name} {value}" for name, value in options.items() if name in MAIN or value != usual[name]
    ]
    return f"Decoder of this export: {', '.join(named)}\n\n"


def example_ids(pipeline: Pipeline) -> list[int]:
    """Token ids of a text with its ends; none for images and stories."""
    if hasattr(pipeline, "source_tokenizer"):
        return [7, 8, 9, pipeline.source_tokenizer.end_id]
    if hasattr(pipeline, "tokenizer") and not pipeline.columns:
        return [pipeline.tokenizer.start_id, 7, 8, 9, pipeline.tokenizer.end_id]
    return []


def describe_input(pipeline: Pipeline, ids_only: bool) -> tuple[list[str], str]:
    """An example of each input in Python, and what is done to them."""
    options = pipeline.options()
    if ids_only:
        first, *_, last = ids = example_ids(pipeline)
        ends = f"{last} last" if first == 7 else f"{first} first and {last} last"
        note = f"Token ids, those of the files in the folder tokenizer: {ends}, padded with 0."
        return [str([ids])], note
    if pipeline.columns:
        note = (
            "UTF-8 strings. The sentences of a story end with a full stop or a line; of more than "
            f"{pipeline.model.max_sentences} only the last are read: see `truncated`."
        )
        return [json.dumps([TEXTS[name]]) for name in pipeline.columns], note
    if "image_size" not in options:
        note = "UTF-8 strings."
        if options.get("max_length"):
            note += f" Longer ones than {options['max_length']} tokens are cut: see `truncated`."
        if hasattr(pipeline, "image_model"):
            note += " `image_bytes` are PNG files: `tf.io.write_file(name, image_bytes[0])`."
        return [f'["{TEXT}"]'], note
    size = options["image_size"]
    rule = RESIZE[options.get("resize", "crop")].format(ratio=options["crop_ratio"])
    note = (
        f"The bytes of JPEG, PNG, GIF, BMP or WebP files. Images are turned upright by EXIF, "
        f"resized to {size} × {size} pixels ({rule}) and normalized inside the model. The "
        f"signature `images` takes float pixels of that size in the range 0 to 1 instead. "
        "`is_readable` is false for files that are not images."
    )
    return ['[open("photo.jpg", "rb").read()]'], note


def write_tokenizers(pipeline: Pipeline, folder: Path) -> None:
    """Writes the pieces by id and, if there is one, the SentencePiece model of each tokenizer."""
    folder.mkdir()
    for name, part in vars(pipeline).items():
        if name.endswith("tokenizer"):
            (folder / f"{name}.txt").write_text("\n".join(part.pieces) + "\n", "utf-8")
            if isinstance(getattr(part, "model", None), bytes):
                (folder / f"{name}.model").write_bytes(part.model)


class ExportedPipeline(Predictor):
    """A SavedModel that is called like the pipeline it was exported from."""

    def __init__(self, folder: Path, kind: str, options: dict[str, Any]):
        self.kind, self.options = kind, options
        self.result, self.columns = PIPELINES[kind].result, PIPELINES[kind].columns
        if text_ops(folder):
            import tensorflow_text  # noqa: F401  # registers them
        self.loaded = tf.saved_model.load(str(folder))
        self.signatures = self.loaded.signatures

    def predict(self, *batch):
        function = self.signatures["serving_default"]
        if self.columns:
            return function(**dict(zip(self.columns, map(tf.constant, batch), strict=True)))
        return function(tf.constant(*batch))


load = ExportedPipeline


def inspect(folder) -> str:
    """The signatures of a SavedModel, and which of its ops need tensorflow-text."""
    graph, lines = read_graph(folder), []
    for name, signature in sorted(graph.signature_def.items()):
        if name.startswith("__"):
            continue
        lines.append(name)
        for arrow, tensors in (("  in ", signature.inputs), ("  out", signature.outputs)):
            for key, info in sorted(tensors.items()):
                shape = ", ".join("?" if d.size < 0 else str(d.size) for d in info.tensor_shape.dim)
                dtype = tf.dtypes.as_dtype(info.dtype).name
                lines.append(f"{arrow} {key}: {dtype} [{shape}]")
    lines.append("needs tensorflow-text: " + (", ".join(text_ops(folder)) or "no"))
    return "\n".join(lines)


def text_ops(folder) -> list[str]:
    """The ops of tensorflow-text in a SavedModel."""
    graph = read_graph(folder).graph_def
    ops = {node.op for node in graph.node}
    ops |= {node.op for function in graph.library.function for node in function.node_def}
    return sorted(op for op in ops if op.startswith(TEXT_OPS))


def read_graph(folder):
    """The MetaGraphDef of a SavedModel."""
    path = Path(folder) / "saved_model.pb"
    if not path.exists():
        raise ValueError(f"{folder} is not a SavedModel: there is no {path}")
    from tensorflow.core.protobuf import saved_model_pb2

    with reading(path):
        return saved_model_pb2.SavedModel.FromString(path.read_bytes()).meta_graphs[0]
