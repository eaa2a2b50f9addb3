"""LiteRT (TensorFlow Lite) export of image classifiers, for phones and small devices.

The folder holds model.tflite, which takes `image` (B, size, size, 3), pixels in 0 … 1, and returns
`scores` (B, C), probabilities; and labels.txt, one class per line. It does not decode image files.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tfx_transformer.pipelines import Classifier
from tfx_transformer.runtime import graph

KINDS = ("classifier",)


def write(classifier: Classifier, folder: Path) -> None:
    """Writes model.tflite, with kernels as 8-bit integers and activations in float32."""
    write_labels(classifier, folder)
    function = classifier.predict_scores
    # the converter loses the weights of variables, so they become constants first
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    module = tf.Module()
    module.score = graph(lambda image: {"scores": frozen(image)[0]}, *function.input_signature)
    with TemporaryDirectory() as temporary:
        tf.saved_model.save(module, temporary, signatures=module.score)
        converter = tf.lite.TFLiteConverter.from_saved_model(temporary)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            (folder / "model.tflite").write_bytes(converter.convert())
        except Exception as error:  # the converter's error class is not public
            missing = re.findall(r"(?:Select|Custom) ops: (.+)", str(error))
            if not missing:
                raise
            raise ValueError(f"LiteRT has no op for {missing[0]} of this model") from error


def write_labels(classifier: Classifier, folder: Path) -> None:
    """Writes labels.txt, one class per line."""
    if classifier.jit_compile:
        raise ValueError("jit_compile must be False: the format has no XLA functions; got True")
    if any("\n" in name for name in classifier.class_names):
        raise ValueError(f"class_names must not contain line breaks; got {classifier.class_names}")
    (folder / "labels.txt").write_text("\n".join(classifier.class_names) + "\n", "utf-8")
