"""Image encoders for captioning: images → a grid of features to attend to.

    IMAGE_ENCODERS.make("small")
    IMAGE_ENCODERS.make({"kind": "efficientnet_lite0", "stage": 6})
    IMAGE_ENCODERS.make({"kind": "vit", "variant": "s16"})
    IMAGE_ENCODERS.make({"kind": "keras", "backbone": "VGG19", "weights": "imagenet"})
    IMAGE_ENCODERS.make({"kind": "keras_hub", "backbone": "resnet_50_imagenet"})

Pixels are -1 to 1, the normalization "half". Every encoder has `dim`, the width C of a feature
vector, and `grid(height, width)`. With `trainable=False` it always runs in inference mode: its
batch statistics do not change.
"""

import importlib
import inspect
import math
import socket
from pathlib import Path

import keras
from keras import ops

from tfx_transformer.checks import check_choice
from tfx_transformer.config import Serializable
from tfx_transformer.models.efficientnet_lite import ConvNorm, EfficientNetLite0
from tfx_transformer.models.vit import ViT
from tfx_transformer.registry import Registry

BACKBONES = [  # NASNets accept one image size only
    name for name in dir(keras.applications) if name[0].isupper() and "NASNet" not in name
]
TIMEOUT = 10  # seconds to wait for a download server


class ImageEncoder(Serializable, keras.layers.Layer):
    """Images (B, h, w, 3) → features (B, S, C), row by row, S = rows · columns.

    A subclass creates `network`, which returns features (B, S, C) or a map of them, and sets `dim`,
    C, and `stride`, the pixels from one feature to the next; or defines `grid`.
    """

    def build(self, images_shape):
        trainable, self.trainable = self.trainable, True  # Keras sets it on existing weights only
        self.network.build((None, None, None, images_shape[-1]))
        self.trainable = trainable

    def call(self, images, training=None):
        x = self.run_network(images, training=bool(training) and self.trainable)
        return ops.reshape(x, (-1, math.prod(ops.shape(x)[1:-1]), self.dim))  # (B, S, C)

    def run_network(self, images, training):
        return self.network(images, training=training)

    def layer_groups(self):
        """Layers from input to output, as in `BaseModel`."""
        return [[self.network]]

    def grid(self, height, width):
        """Rows and columns of features of an image."""
        return -(-height // self.stride), -(-width // self.stride)


class SmallEncoder(ImageEncoder):
    """Convolutions with batch norm and ReLU, small enough to be trained from scratch.

    Args:
        dims: output channels of each convolution; the last is C.
        strides: stride of each convolution.
        kernel_size: kernel size of all convolutions.
    """

    def __init__(
        self, dims=(32, 64, 96, 128, 192), strides=(2, 2, 2, 2, 1), kernel_size=3, **kwargs
    ):
        super().__init__(**kwargs)
        if not dims or len(dims) != len(strides):
            raise ValueError(f"dims must be as many as strides; got {dims=}, {strides=}")
        self.dim, self.stride = dims[-1], math.prod(strides)
        self.network = keras.Sequential(
            [
                ConvNorm(
                    dim, kernel_size, stride, "relu", name=f"conv_{i}", dtype=self.dtype_policy
                )
                for i, (dim, stride) in enumerate(zip(dims, strides, strict=True))
            ],
            name="network",
        )

    def layer_groups(self):
        return [[layer] for layer in self.network.layers]


class EfficientNetLite0Encoder(ImageEncoder):
    """EfficientNet-Lite0; `load_weights(encoder.network, …)` loads pretrained weights.

    Args:
        stage: last stage: 9 gives 1,280 channels for each 32 × 32 pixels, 8 gives 320, and 6 gives
            112 for each 16 × 16.
    """

    def __init__(self, stage=9, **kwargs):
        super().__init__(**kwargs)
        self.network = EfficientNetLite0(stage, name="network", dtype=self.dtype_policy)
        self.dim, self.stride = self.network.dim, self.network.stride

    def layer_groups(self):
        return [[layer] for layer in self.network.all_layers()]


class ViTEncoder(ImageEncoder):
    """The patches of a Vision Transformer after its last norm.

    `load_weights(encoder.network, …, head=False)` loads pretrained weights.

    Args:
        variant: a name in `ViT.variants`.
        options: arguments of `ViT` that replace those of the variant.
    """

    def __init__(self, variant="s16", options=None, **kwargs):
        super().__init__(**kwargs)
        check_choice(*ViT.variants, variant=variant)
        sizes = ViT.variants[variant] | (options or {}) | {"num_classes": 0, "pool": "mean"}
        self.network = ViT(**sizes, name="network", dtype=self.dtype_policy)
        self.dim = self.network.dim

    def run_network(self, images, training):
        x, _ = self.network.encode_tokens(images, training=training)
        return self.network.last_norm(x)[:, self.network.num_tokens :]

    def layer_groups(self):
        return self.network.layer_groups()

    def grid(self, height, width):
        return self.network.grid((None, height, width, 3))


class KerasEncoder(ImageEncoder):
    """The last feature map of a network in `keras.applications`, before any pooling at its end.

    Images are converted to the network's own range by its `preprocess_input`.

    Args:
        backbone: name of the network in `keras.applications`.
        weights: None for random weights, "imagenet" to download them or use a previous download,
            or a file of weights without the head. A saved encoder contains its weights, and its
            config has weights=None.
    """

    def __init__(self, backbone="VGG19", weights=None, **kwargs):
        super().__init__(**kwargs)
        check_choice(*BACKBONES, backbone=backbone)
        whole = _make_backbone(backbone, weights, self.dtype_policy)
        last = whole.layers[-2 if isinstance(whole.layers[-1], keras.layers.MaxPooling2D) else -1]
        self.network = keras.Model(whole.input, last.output, name="network")
        self.dim = last.output.shape[-1]
        module = inspect.getmodule(getattr(keras.applications, backbone))
        self.preprocess = module.preprocess_input

    def get_config(self):
        return super().get_config() | {"weights": None}

    def run_network(self, images, training):
        pixels = (images + 1) * 127.5  # 0 … 255
        return self.network(self.preprocess(pixels), training=training)

    def grid(self, height, width):
        return self.network.compute_output_shape((None, height, width, 3))[1:3]


class KerasHubEncoder(ImageEncoder):
    """The features of an image backbone of keras-hub: its last map, or its patches.

    Args:
        backbone: the name of a preset of keras-hub, a folder written by `save_to_preset`, or the
            name of a backbone class, with random weights. A saved encoder contains its weights, and
            its config has the class.
        options: arguments of the class.
        scale, offset: the backbone reads scale · pixels + offset, for pixels in 0 … 255; numbers or
            a list for the colors. By default those of the preset, or else for -1 … 1.
    """

    def __init__(self, backbone, options=None, scale=None, offset=None, **kwargs):
        super().__init__(**kwargs)
        hub = importlib.import_module("keras_hub")  # takes seconds
        kind, policy = getattr(hub.models, str(backbone), None), keras.config.dtype_policy()
        is_class = inspect.isclass(kind) and issubclass(kind, hub.models.Backbone)
        try:
            keras.config.set_dtype_policy(self.dtype_policy)  # some backbones ignore `dtype`
            if is_class:
                self.network = kind(**(options or {}), dtype=self.dtype_policy)
            else:
                load = hub.models.Backbone.from_preset
                self.network = load(str(backbone), dtype=self.dtype_policy)
        finally:
            keras.config.set_dtype_policy(policy)
        if not is_class and scale is None and offset is None:
            scale, offset = preset_range(hub, str(backbone))
        self.backbone = type(self.network).__name__
        config = self.network.get_config()
        self.options = {k: config[k] for k in config if k not in ("name", "trainable", "dtype")}
        self.scale = 1 / 127.5 if scale is None else scale
        self.offset = -1.0 if offset is None and scale is None else (offset or 0.0)
        shape = getattr(self.network.output, "shape", None)
        if shape is None or len(shape) not in (3, 4):
            raise ValueError(f"{backbone} must have one output, a map of features or patches")
        self.dim = shape[-1]

    def run_network(self, images, training):
        pixels = (images + 1) * 127.5  # 0 … 255
        scale, offset = (ops.cast(x, images.dtype) for x in (self.scale, self.offset))
        x = self.network(pixels * scale + offset, training=training)
        if len(x.shape) == 3:  # without class tokens
            rows, columns = self.grid(*images.shape[1:3])
            x = x[:, x.shape[1] - rows * columns :]
        return x

    def grid(self, height, width):
        size = self.network.input_shape[1:3]
        if any(own not in (None, given) for own, given in zip(size, (height, width), strict=True)):
            raise ValueError(
                f"images of {self.backbone} must be {size[0]} × {size[1]} pixels, as in its "
                f"preset; got {height} × {width}"
            )
        shape = self.network.compute_output_shape((None, height, width, 3))
        if len(shape) == 4:
            return shape[1:3]
        side = math.isqrt(shape[1])  # of a square image, beside a few class tokens
        return side, side


def preset_range(hub, preset):
    """The scale and offset of pixels of a preset; None each if it has no image converter."""
    try:
        converter = hub.layers.ImageConverter.from_preset(preset)
    except (FileNotFoundError, ValueError):
        return None, None
    return converter.scale, converter.offset


def _make_backbone(name, weights, policy):
    """Create the network without its head, with this dtype policy, for which it has no argument."""
    if weights not in (None, "imagenet") and not Path(weights).is_file():
        raise FileNotFoundError(f'weights must be None, "imagenet" or a file; no file {weights}')
    if weights is not None and name.startswith("EfficientNetB"):
        raise ValueError(
            f"{name} must have weights=None, because Keras adds a layer to it for its own weights, "
            f"which is lost in saving; got {weights=}. EfficientNetV2B0 has no such layer"
        )
    timeout, default_policy = socket.getdefaulttimeout(), keras.config.dtype_policy()
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
        keras.config.set_dtype_policy(default_policy)


IMAGE_ENCODERS = Registry(
    "image encoder",
    {
        "efficientnet_lite0": EfficientNetLite0Encoder,
        "keras": KerasEncoder,
        "keras_hub": KerasHubEncoder,
        "small": SmallEncoder,
        "vit": ViTEncoder,
    },
)
