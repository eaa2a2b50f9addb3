"""LiteRT (TensorFlow Lite) export of image classifiers, for phones and small devices.

The folder holds model.tflite, which takes `image` (B, size, size, 3), pixels in 0 … 1, and returns
`scores` (B, C), probabilities; and labels.txt, one class per line. It does not decode image files;
`load` adds that, as in training.
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from tfx_transformer.data.images.pixels import decode_batch
from tfx_transformer.pipelines import Classifier
from tfx_transformer.pipelines.base import Predictor
from tfx_transformer.pipelines.classifier import top_classes
from tfx_transformer.runtime import graph

KINDS = ("classifier",)
RESIZE = {  # with Pillow, as `resize_and_crop`
    "crop": "ImageOps.fit(image, {size}, Image.Resampling.BICUBIC)",
    "pad": "ImageOps.pad(image, {size}, Image.Resampling.BICUBIC, (128, 128, 128))",
    "squash": "image.resize({size}, Image.Resampling.BICUBIC)",
}
USAGE = """## How to use it

Run this in the folder of this file; it needs {needs}, not the package that wrote it:

```python
from pathlib import Path

import numpy as np
{imports}
from PIL import Image, ImageOps

image = ImageOps.exif_transpose(Image.open("photo.jpg")).convert("RGB")
image = {resize}
image = image.crop({box})
pixels = np.asarray(image, "float32")[None] / 255  # (1, {size}, {size}, 3) in 0 … 1
{run}
names = Path("labels.txt").read_text("utf-8").split("\\n")
for i in np.argsort(-scores)[:{top_k}]:
    print(f"{{names[i]}} {{scores[i]:.3f}}")
```
"""
RUN = """model = tf.lite.Interpreter("model.tflite").get_signature_runner()
scores = model(image=pixels)["scores"][0]"""


def write(classifier: Classifier, folder: Path) -> str:
    """Writes model.tflite, with kernels as 8-bit integers and activations in float32.

    Returns how to use it.
    """
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
    needs = "NumPy, Pillow and TensorFlow"
    return describe_usage(classifier, needs, "import tensorflow as tf", RUN)


def describe_usage(classifier: Classifier, needs: str, imports: str, run: str) -> str:
    """A program that classifies an image file, prepared as in training."""
    size = classifier.model.image_size
    options = classifier.image_options
    resized = round(size / options.crop_ratio)
    start = (resized - size) // 2
    return USAGE.format(
        needs=needs,
        imports=imports,
        resize=RESIZE[options.resize].format(size=(resized, resized)),
        box=(start, start, start + size, start + size),
        size=size,
        run=run,
        top_k=classifier.top_k,
    )


def write_labels(classifier: Classifier, folder: Path) -> None:
    """Writes labels.txt, one class per line."""
    if classifier.jit_compile:
        raise ValueError("jit_compile must be False: the format has no XLA functions; got True")
    if any("\n" in name for name in classifier.class_names):
        raise ValueError(f"class_names must not contain line breaks; got {classifier.class_names}")
    (folder / "labels.txt").write_text("\n".join(classifier.class_names) + "\n", "utf-8")


class ScoresOfPixels(Predictor):
    """A classifier whose exported part takes pixels: image files are decoded here.

    Args:
        scores: pixels (B, size, size, 3) in 0 … 1 → probabilities (B, C), arrays.
        options: of the exported pipeline.
    """

    kind, result = Classifier.kind, Classifier.result

    def __init__(self, scores: Callable[[np.ndarray], np.ndarray], options: dict[str, Any]):
        self.scores, self.options = scores, options
        names = ("crop_ratio", "resize", "max_pixels")
        how = {name: options[name] for name in names if name in options}
        self.read = graph(
            lambda image: decode_batch(image, options["image_size"], **how),
            tf.TensorSpec([None], tf.string, name="image"),
        )

    def predict(self, batch):
        images, is_readable = self.read(tf.constant(batch, tf.string))
        logits = tf.math.log(self.scores(images.numpy() / 255))
        outputs = top_classes(logits, self.options["class_names"], self.options["top_k"])
        return outputs | {"is_readable": is_readable}


def load(folder: Path, kind: str, options: dict[str, Any]) -> ScoresOfPixels:
    runner = open_model(folder).get_signature_runner()
    return ScoresOfPixels(lambda images: runner(image=images)["scores"], options)


def open_model(folder: Path) -> Any:
    with warnings.catch_warnings():  # its successor is another package
        warnings.filterwarnings("ignore", ".*tf.lite.Interpreter is deprecated")
        return tf.lite.Interpreter(str(folder / "model.tflite"))


def inspect(folder: Path) -> str:
    """The inputs and outputs of the signature."""
    runner = open_model(folder).get_signature_runner()
    sides = {"  in ": runner.get_input_details(), "  out": runner.get_output_details()}
    lines = [
        describe_tensor(arrow, name, np.dtype(x["dtype"]).name, x["shape_signature"])
        for arrow, tensors in sides.items()
        for name, x in tensors.items()
    ]
    return "\n".join(["serving_default", *lines])


def describe_tensor(arrow: str, name: str, dtype: str, shape) -> str:
    sizes = ("?" if not isinstance(x, int | np.integer) or x < 0 else str(x) for x in shape)
    return f"{arrow} {name}: {dtype} [{', '.join(sizes)}]"
