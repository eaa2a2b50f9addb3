"""Models as SavedModels that need none of this package to load.

    m = tf.saved_model.load(folder)                 # a translator: after `import tensorflow_text`
    m.signatures["serving_default"](tf.constant(["hello"]))["text"]

    m = tf.saved_model.load(folder)                 # a classifier
    m.signatures["serving_default"](tf.constant([open("cat.jpg", "rb").read()]))["label"]

A translator's text ops come from tensorflow-text; an export of ids alone needs TensorFlow only,
because one such op anywhere would keep the whole from loading.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from tfx_transformer.classifier import Classifier
from tfx_transformer.translator import Translator

TEXT_OPS = ("Sentencepiece",)  # how the names of tensorflow-text's ops begin


class Exported(tf.Module):
    """What an exported function refers to: the weights, and the tokenizers if there are strings.

    The Keras model itself stays out: TensorFlow would trace it once more, on inputs of its own.
    """

    def __init__(self, model, tokenizers=()):
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        self.tokenizers = list(tokenizers)


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
        return write(Exported(translator.model), folder, card, {"serving_default": ids})
    signatures = {
        "serving_default": translator.translate.get_concrete_function(),
        "limited": translator.limited.get_concrete_function(),  # and max_length
        "ids": ids,
    }
    tokenizers = [translator.source_tokenizer, translator.target_tokenizer]
    return write(Exported(translator.model, tokenizers), folder, card, signatures)


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


def check_absent(folder) -> None:
    if Path(folder).exists():
        raise ValueError(f"{folder} is there already: choose another folder, or remove it")


def write(module: Exported, folder, card: str, signatures) -> Path:
    folder = Path(folder)
    half = folder.with_name(folder.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    tf.saved_model.save(module, str(half), signatures=signatures)
    (half / "README.md").write_text(card)
    return half.rename(folder)


def load_export(folder, n_best: int = 1) -> Callable:
    """The exported function: strings (B,) → a dict of tensors, as of `Translator.translate`."""
    import tensorflow_text  # noqa: F401  # brings the text ops

    loaded = tf.saved_model.load(str(folder))
    outputs = loaded.signatures["serving_default"].structured_outputs
    if "n_best" not in outputs:
        kind = "classifies pictures" if "label" in outputs else "takes and gives token ids"
        raise ValueError(f"{folder} {kind}: it does not translate strings")
    if outputs["n_best"].shape[1] < n_best:
        raise ValueError(
            f"n_best={n_best} is more than the {outputs['n_best'].shape[1]} for which {folder} was "
            "exported; export again with a larger n_best"
        )
    return lambda texts: loaded.signatures["serving_default"](tf.constant(texts))


def load_classifier(folder) -> Callable:
    """The exported function: bytes (B,) → a dict of tensors, as of `Classifier.classify`."""
    loaded = tf.saved_model.load(str(folder))
    if "label" not in loaded.signatures["serving_default"].structured_outputs:
        raise ValueError(f"{folder} translates: it does not classify pictures")
    return lambda images: loaded.signatures["serving_default"](tf.constant(images))


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
