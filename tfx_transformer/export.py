"""Models as SavedModels that need none of this package to load.

    m = tf.saved_model.load(folder)                 # a translator: after `import tensorflow_text`
    m.signatures["serving_default"](tf.constant(["hello"]))["text"]

    m = tf.saved_model.load(folder)                 # a classifier
    m.signatures["serving_default"](tf.constant([open("cat.jpg", "rb").read()]))["label"]

Ops on text come from tensorflow-text; an export of ids alone needs TensorFlow only, because one
such op anywhere would keep the whole from loading.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from tfx_transformer.captioner import Captioner
from tfx_transformer.classifier import Classifier
from tfx_transformer.generator import Generator
from tfx_transformer.text_classifier import TextClassifier
from tfx_transformer.translator import Translator

# how the names of tensorflow-text's ops begin
TEXT_OPS = ("Sentencepiece", "FastBert", "FastWordpiece")


class Exported(tf.Module):
    """What an exported function refers to: the weights, the tokenizers if there are strings, and
    the seeds of what is drawn.

    The Keras model itself stays out: TensorFlow would trace it once more, on inputs of its own.
    """

    def __init__(self, model, tokenizers=(), seeds=()):
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        self.tokenizers, self.seeds = list(tokenizers), list(seeds)


def export_translator(translator: Translator, folder, card: str = "", ids_only=False) -> Path:
    """Writes a SavedModel, whole or not at all; the folder must not be there yet.

    Args:
        translator: what to export; its decoder and lengths stay as they are.
        folder: where to.
        card: a text about the model, for README.md in the folder.
        ids_only: token ids in and out; needs nothing but TensorFlow to load.
    """
    check_absent(folder)
    ids = translator.decode.get_concrete_function()
    if ids_only:
        module = Exported(translator.model, seeds=translator.seeds)
        return write(module, folder, card, {"serving_default": ids})
    signatures = {
        "serving_default": translator.translate.get_concrete_function(),
        "limited": translator.limited.get_concrete_function(),  # and max_length
        "ids": ids,
    }
    tokenizers = [translator.source_tokenizer, translator.target_tokenizer]
    module = Exported(translator.model, tokenizers, translator.seeds)
    return write(module, folder, card, signatures)


def export_classifier(classifier: Classifier, folder, card: str = "") -> Path:
    """Writes a SavedModel, whole or not at all: bytes of pictures in, names of classes out.

    A second signature, `images`, takes pixels from 0 to 1. Args as above.
    """
    check_absent(folder)
    signatures = {
        "serving_default": classifier.classify.get_concrete_function(),
        "images": classifier.predict.get_concrete_function(),
    }
    return write(Exported(classifier.model), folder, card, signatures)


def export_captioner(captioner: Captioner, folder, card: str = "") -> Path:
    """Writes a SavedModel, whole or not at all: bytes of pictures in, captions out.

    A second signature, `images`, takes pixels from 0 to 1. Args as above.
    """
    check_absent(folder)
    signatures = {
        "serving_default": captioner.caption.get_concrete_function(),
        "images": captioner.predict.get_concrete_function(),
    }
    module = Exported(captioner.model, [captioner.tokenizer], captioner.seeds)
    return write(module, folder, card, signatures)


def export_generator(generator: Generator, folder, card: str = "") -> Path:
    """Writes a SavedModel, whole or not at all: beginnings of texts in, how they go on out.

    A second signature, `limited`, also takes a smaller `max_length`. What is drawn without a seed
    is another text in each call, but the same calls give the same texts after each loading.
    """
    check_absent(folder)
    signatures = {
        "serving_default": generator.generate.get_concrete_function(),
        "limited": generator.limited.get_concrete_function(),
    }
    module = Exported(generator.model, [generator.tokenizer], generator.seeds)
    return write(module, folder, card, signatures)


def export_text_classifier(classifier: TextClassifier, folder, card: str = "") -> Path:
    """Writes a SavedModel, whole or not at all: texts in, names of classes out.

    A second signature, `ids`, takes token ids with START and END, padded with 0.
    """
    check_absent(folder)
    signatures = {
        "serving_default": classifier.classify.get_concrete_function(),
        "ids": classifier.predict.get_concrete_function(),
    }
    return write(Exported(classifier.model, [classifier.tokenizer]), folder, card, signatures)


def check_absent(folder) -> None:
    if Path(folder).exists():
        raise ValueError(f"{folder} is there already: choose another folder, or remove it")


def write(module: Exported, folder, card: str, signatures) -> Path:
    with new_folder(folder, card) as half:
        tf.saved_model.save(module, str(half), signatures=signatures)
    return Path(folder)


@contextmanager
def new_folder(folder, card: str) -> Iterator[Path]:
    """A folder to fill, which gets its card and its name at the end: it is whole or not there."""
    folder = Path(folder)
    half = folder.with_name(folder.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    yield half
    (half / "README.md").write_text(card, "utf-8")
    half.rename(folder)


def load_export(folder, n_best: int = 1) -> Callable:
    """The exported function: strings (B,) → a dict of tensors, as of `Translator.translate`."""
    loaded, outputs = open_export(folder, "translates strings")
    if outputs["n_best"].shape[1] < n_best:
        raise ValueError(
            f"n_best={n_best} is more than the {outputs['n_best'].shape[1]} for which {folder} was "
            "exported; export again with a larger n_best"
        )
    return lambda texts: loaded.signatures["serving_default"](tf.constant(texts))


def load_classifier(folder) -> Callable:
    """The exported function: bytes (B,) → a dict of tensors, as of `Classifier.classify`."""
    loaded, _ = open_export(folder, "classifies pictures", has_text=False)
    return lambda images: loaded.signatures["serving_default"](tf.constant(images))


def load_captioner(folder) -> Callable:
    """The exported function: bytes (B,) → a dict of tensors, as of `Captioner.caption`."""
    loaded, _ = open_export(folder, "describes pictures")
    return lambda images: loaded.signatures["serving_default"](tf.constant(images))


def load_generator(folder) -> Callable:
    """The exported function: strings (B,) and a largest length → as of `Generator.limited`."""
    loaded, _ = open_export(folder, "continues texts")
    serve = loaded.signatures["limited"]
    return lambda texts, max_length: serve(
        text=tf.constant(texts), max_length=tf.constant(max_length)
    )


def load_text_classifier(folder) -> Callable:
    """The exported function: strings (B,) → a dict of tensors, as of `TextClassifier.classify`."""
    loaded, _ = open_export(folder, "classifies texts")
    return lambda texts: loaded.signatures["serving_default"](tf.constant(texts))


def open_export(folder, what: str, has_text: bool = True) -> tuple[Any, dict]:
    """An export that must do this, and its outputs; by the first of these here it is told."""
    if has_text:
        import tensorflow_text  # noqa: F401  # brings the text ops
    loaded = tf.saved_model.load(str(folder))
    outputs = loaded.signatures["serving_default"].structured_outputs
    told_by = {
        "alignment": "translates strings",
        "prompt": "continues texts",
        "weights": "describes pictures",
        "is_readable": "classifies pictures",
        "label": "classifies texts",
        "tokens": "takes and gives token ids",
    }
    does = next((kind for name, kind in told_by.items() if name in outputs), "does something else")
    if does != what:
        raise ValueError(f"{folder} must be an export that {what}; this one {does}")
    return loaded, outputs


def inspect_export(folder) -> str:
    """The signatures of a SavedModel, and which of its ops need tensorflow-text."""
    path = Path(folder) / "saved_model.pb"
    if not path.exists():
        raise ValueError(f"{folder} holds no SavedModel: there is no {path}")
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(path.read_bytes()).meta_graphs[0]
    lines = []
    for name, signature in sorted(graph.signature_def.items()):
        if name.startswith("__"):
            continue
        lines.append(name)
        for arrow, tensors in (("  in ", signature.inputs), ("  out", signature.outputs)):
            for key, info in sorted(tensors.items()):
                shape = ", ".join("?" if d.size < 0 else str(d.size) for d in info.tensor_shape.dim)
                dtype = tf.dtypes.as_dtype(info.dtype).name
                lines.append(f"{arrow} {key}: {dtype} [{shape}]")
    nodes = [node.op for node in graph.graph_def.node]
    for function in graph.graph_def.library.function:
        nodes += [node.op for node in function.node_def]
    text_ops = sorted({op for op in nodes if op.startswith(TEXT_OPS)})
    lines.append("needs tensorflow-text: " + (", ".join(text_ops) or "no"))
    return "\n".join(lines)
