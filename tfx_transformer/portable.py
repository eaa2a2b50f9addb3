"""Classifiers of pictures as files for small runtimes: LiteRT, for phones, and ONNX.

    export_portable(classifier, "small", "litert")      # small/model.tflite

The folder holds the model, which takes `image` (B, size, size, 3), pixels from 0 to 1, and gives
`scores` (B, C), shares that sum to one; labels.txt, a class a line; and the card. Neither runtime
reads picture files.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tfx_transformer.classifier import Classifier
from tfx_transformer.export import check_absent, new_folder
from tfx_transformer.graph import graph

ONNX_OPSET = 18


def export_portable(classifier: Classifier, folder, format: str, card: str = "") -> Path:
    """Writes the folder, whole or not at all; it must not be there yet.

    Args:
        classifier: what to export, not compiled.
        folder: where to.
        format: a name in FORMATS.
        card: a text about the model, for README.md in the folder.
    """
    check_absent(folder)
    if format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; known: {', '.join(FORMATS)}")
    if any("\n" in name for name in classifier.class_names):
        raise ValueError("class names must be of one line, to stand in labels.txt")
    file, convert = FORMATS[format]
    content = convert(scores_graph(classifier))
    with new_folder(folder, card) as half:
        (half / file).write_bytes(content)
        (half / "labels.txt").write_text("\n".join(classifier.class_names) + "\n", "utf-8")
    return Path(folder)


def scores_graph(classifier: Classifier) -> tf.types.experimental.PolymorphicFunction:
    """Pixels (B, size, size, 3) from 0 to 1 → shares (B, C)."""
    size = classifier.model.image_size

    def score(image):
        return {"scores": tf.nn.softmax(tf.cast(classifier.logits(255 * image), tf.float32))}

    return graph(score, tf.TensorSpec([None, size, size, 3], tf.float32, name="image"))


def to_litert(function) -> bytes:
    """Kernels as 8-bit integers, a quarter of their size; the sums stay float32."""
    # of variables the converter makes a file without weights, so they are constants first
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    module = tf.Module()
    module.score = graph(lambda image: {"scores": frozen(image)[0]}, *function.input_signature)
    with TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=module.score)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            return converter.convert()
        except Exception as error:  # its class is not public
            missing = re.findall(r"(?:Select|Custom) ops: (.+)", str(error))
            if not missing:
                raise
            raise ValueError(f"LiteRT has no op for {missing[0]} of this model") from error


def to_onnx(function) -> bytes:
    """float32, of opset 18."""
    try:
        import tf2onnx
    except ImportError as error:
        raise ImportError(
            'the format onnx needs tf2onnx: pip install "tfx-transformer[onnx]"'
        ) from error
    model, _ = tf2onnx.convert.from_function(
        function,
        input_signature=function.input_signature,
        opset=ONNX_OPSET,
        custom_op_handlers={"Erfc": (write_erfc, [])},
    )
    return model.SerializeToString()


def write_erfc(context, node, *_) -> None:
    """ONNX has no erfc, of which TensorFlow makes its GELU: 1 − erf(x) in its place."""
    (x,), (y,) = node.input, node.output
    kind = {"dtypes": [context.get_dtype(y)], "shapes": [context.get_shape(y)]}
    context.remove_node(node.name)
    one = context.make_const(f"{node.name}/one", np.ones((), "float32"))
    erf = context.make_node("Erf", [x], **kind)
    context.make_node("Sub", [one.output[0], erf.output[0]], outputs=[y], **kind)


FORMATS = {"litert": ("model.tflite", to_litert), "onnx": ("model.onnx", to_onnx)}
