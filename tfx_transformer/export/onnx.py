"""ONNX export of image classifiers.

The folder holds model.onnx, with the same input and output as the LiteRT export, and labels.txt.
"""

from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.checks import import_extra
from tfx_transformer.export.litert import (
    ScoresOfPixels,
    describe_tensor,
    describe_usage,
    write_labels,
)
from tfx_transformer.pipelines import Classifier

KINDS = ("classifier",)
OPSET = 18
RUN = """model = onnxruntime.InferenceSession("model.onnx")
scores = model.run(["scores"], {"image": pixels})[0][0]"""


def write(classifier: Classifier, folder: Path) -> str:
    """Writes model.onnx, in float32, and returns how to use it."""
    tf2onnx = import_extra("tf2onnx", "the format onnx", "onnx")
    write_labels(classifier, folder)
    function = classifier.predict_scores
    model, _ = tf2onnx.convert.from_function(
        function,
        input_signature=function.input_signature,
        opset=OPSET,
        custom_op_handlers={"Erfc": (convert_erfc, [])},
    )
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    needs = "NumPy, Pillow and ONNX Runtime"
    return describe_usage(classifier, needs, "import onnxruntime", RUN)


def load(folder: Path, kind: str, options: dict[str, Any]) -> ScoresOfPixels:
    session = open_model(folder)
    return ScoresOfPixels(lambda images: session.run(["scores"], {"image": images})[0], options)


def open_model(folder: Path) -> Any:
    onnxruntime = import_extra("onnxruntime", f"{folder}, an ONNX file,", "onnx")
    return onnxruntime.InferenceSession(str(folder / "model.onnx"))


def inspect(folder: Path) -> str:
    """The inputs and outputs of the file."""
    session = open_model(folder)
    sides = {"  in ": session.get_inputs(), "  out": session.get_outputs()}
    lines = [
        describe_tensor(arrow, x.name, x.type.removeprefix("tensor(").rstrip(")"), x.shape)
        for arrow, tensors in sides.items()
        for x in tensors
    ]
    return "\n".join(["serving_default", *lines])


def convert_erfc(context, node, *_) -> None:
    """Replaces erfc, which TensorFlow uses for GELU and ONNX does not have, by 1 − erf."""
    (x,), (y,) = node.input, node.output
    kind = {"dtypes": [context.get_dtype(y)], "shapes": [context.get_shape(y)]}
    context.remove_node(node.name)
    one = context.make_const(f"{node.name}/one", np.ones((), "float32"))
    erf = context.make_node("Erf", [x], **kind)
    context.make_node("Sub", [one.output[0], erf.output[0]], outputs=[y], **kind)
