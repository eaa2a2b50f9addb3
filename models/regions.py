"""Encoders that give an image as a grid of regions, which a captioning model attends to.

    REGIONS.make("small")
    REGIONS.make({"kind": "efficientnet_lite0", "stage": 6})
    REGIONS.make({"kind": "vit", "variant": "s16"})
    REGIONS.make({"kind": "keras", "backbone": "VGG19", "weights": "imagenet"})

Images are −1 … 1, the normalisation "half". Every encoder has `dim`, the size C of a region, and
`grid(image_size)`. With `trainable=False` it computes as it does after training, also within a
model that is being trained: its batch statistics stay.
"""

import inspect
import math
import socket
from pathlib import Path

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.config import Configured
from tfx_transformer.models.efficientnet_lite import ConvNorm, EfficientNetLite0
from tfx_transformer.models.vit import ViT
from tfx_transformer.registry import Registry

BACKBONES = [  # a NASNet is made for one image size
    name for name in dir(keras.applications) if name[0].isupper() and "NASNet" not in name
]
TIMEOUT = 10  # seconds for a server to answer


class Regions(Configured, keras.layers.Layer):
    """Images (B, h, w, 3) → regions (B, S, C), row by row, S = rows · columns.

    A subclass makes `network`, which gives the regions or a map of them, and tells their `dim`;
    and `stride`, how many pixels a step on the map is, or its own `sides`.
    """

    def build(self, images_shape):
        trainable, self.trainable = self.trainable, True  # Keras tells it to weights that exist
        self.network.build((None, None, None, images_shape[-1]))
        self.trainable = trainable

    def call(self, images, training=None):
        x = self.network(images, training=bool(training) and self.trainable)
        return ops.reshape(x, (-1, math.prod(ops.shape(x)[1:-1]), self.dim))  # (B, S, C)

    def grid(self, image_size):
        """Rows and columns of regions in images of this height and width, or of this one side."""
        height, width = (image_size, image_size) if isinstance(image_size, int) else image_size
        check_positive(height=height, width=width)
        return self.sides(height, width)

    def sides(self, height, width):
        return -(-height // self.stride), -(-width // self.stride)


class SmallRegions(Regions):
    """Convolutions with batch norm and ReLU, few enough to be trained from nothing.

    Args:
        dims: channels that leave each; the last is C.
        strides: of each.
        kernel_size: of all.
    """

    def __init__(
        self, dims=(32, 64, 96, 128, 192), strides=(2, 2, 2, 2, 1), kernel_size=3, **kwargs
    ):
        super().__init__(**kwargs)
        if not dims or len(dims) != len(strides):
            raise ValueError(f"dims must be as many as strides; got {dims=}, {strides=}")
        self.dims, self.strides, self.kernel_size = dims, strides, kernel_size
        self.dim, self.stride = dims[-1], math.prod(strides)
        self.network = keras.Sequential(
            [
                ConvNorm(dim, kernel_size, stride, "relu", dtype=self.dtype_policy)
                for dim, stride in zip(dims, strides, strict=True)
            ],
            name="network",
        )


class EfficientNetLite0Regions(Regions):
    """EfficientNet-Lite0; `load_efficientnet_lite0` gives it weights trained on ImageNet.

    Args:
        stage: where to stop: 9 gives 1,280 channels for each 32 × 32 pixels, 8 gives 320, and 6
            gives 112 for each 16 × 16.
    """

    def __init__(self, stage=9, **kwargs):
        super().__init__(**kwargs)
        self.stage = stage
        self.network = EfficientNetLite0(stage, name="network", dtype=self.dtype_policy)
        self.dim, self.stride = self.network.dim, self.network.stride


class PatchViT(ViT):
    """A ViT that ends at its last norm: images → patches (B, N, D), without token and head."""

    def build(self, images_shape):
        shape = (None, None, self.dim)
        tokenizer = self.convolutions if self.patch_size is None else self.patches
        tokenizer.build((None, self.image_size, self.image_size, self.channels))
        for layer in (self.place, *self.blocks, self.last_norm):
            layer.build(shape)
        if self.num_tokens:
            self.tokens.build(shape)
            self.token_place = self.add_weight(
                shape=(self.num_tokens, self.dim), initializer="random_normal", name="token_place"
            )

    def call(self, images, training=None):
        return self.encode(images, training=training)[0]

    def summarise(self, x):
        return x[:, self.num_tokens :]


class ViTRegions(Regions):
    """The patches of a Vision Transformer; `load_weights(encoder.network, …, head=False)`
    gives it weights of others.

    Args:
        variant: a name in `ViT.variants`.
        options: of `ViT`, over those of the variant.
    """

    def __init__(self, variant="s16", options=None, **kwargs):
        super().__init__(**kwargs)
        check_choice(*ViT.variants, variant=variant)
        self.variant, self.options = variant, options
        chosen = ViT.variants[variant] | (options or {})
        self.network = PatchViT(1, **chosen, name="network", dtype=self.dtype_policy)
        self.dim = self.network.dim

    def sides(self, height, width):
        return self.network.grid((None, height, width, 3))


class KerasRegions(Regions):
    """The last map of a network in `keras.applications`, before any pooling at its end.

    Images are turned into what the network was trained on by its own `preprocess_input`.

    Args:
        backbone: the network's name in `keras.applications`.
        weights: None for random ones, "imagenet" to download them or take what was downloaded
            before, or a file of them without the head. A saved encoder holds its weights, and
            does not ask again where they came from.
    """

    def __init__(self, backbone="VGG19", weights=None, **kwargs):
        super().__init__(**kwargs)
        check_choice(*BACKBONES, backbone=backbone)
        self.backbone = backbone
        whole = _make_backbone(backbone, weights, self.dtype_policy)
        last = whole.layers[-2 if isinstance(whole.layers[-1], keras.layers.MaxPooling2D) else -1]
        self.network = keras.Model(whole.input, last.output, name="network")
        self.dim = last.output.shape[-1]
        module = inspect.getmodule(getattr(keras.applications, backbone))
        self.preprocess = module.preprocess_input

    def get_config(self):
        return super().get_config() | {"weights": None}

    def call(self, images, training=None):
        pixels = (images + 1) * 127.5  # 0 … 255
        return super().call(self.preprocess(pixels), training=training)

    def sides(self, height, width):
        return self.network.compute_output_shape((None, height, width, 3))[1:3]


def _make_backbone(name, weights, policy):
    """The network without its head; in the layer's precision, for which Keras has no argument."""
    if weights not in (None, "imagenet") and not Path(weights).is_file():
        raise FileNotFoundError(f'weights must be None, "imagenet" or a file; no file {weights}')
    if weights is not None and name.startswith("EfficientNetB"):
        raise ValueError(
            f"{name} must have weights=None, because Keras adds a layer to it for its own weights, "
            f"which is lost in saving; got {weights=}. EfficientNetV2B0 has no such layer"
        )
    timeout, before = socket.getdefaulttimeout(), keras.config.dtype_policy()
    try:
        socket.setdefaulttimeout(TIMEOUT)
        keras.config.set_dtype_policy(policy)
        return getattr(keras.applications, name)(include_top=False, weights=weights)
    except Exception as error:
        if weights != "imagenet":
            raise
        raise ValueError(
            f'weights="imagenet" of {name} must be downloaded once, which failed: {error}. Without '
            "network, get that file by other means, and give its path as weights"
        ) from error
    finally:
        socket.setdefaulttimeout(timeout)
        keras.config.set_dtype_policy(before)


REGIONS = Registry(
    "regions",
    {
        "efficientnet_lite0": EfficientNetLite0Regions,
        "keras": KerasRegions,
        "small": SmallRegions,
        "vit": ViTRegions,
    },
)
