"""EfficientNet-Lite0: a small convolutional network for images, with weights of ImageNet.

    image → stem → inverted bottleneck × 16 → last convolution → feature map

EfficientNet-B0 (arXiv:1905.11946) without squeeze-and-excitation and with ReLU6 instead of swish,
for small devices. The stages are numbered as in table 1 of the paper:

    stage       1    2    3    4    5    6    7    8     9
    channels   32   16   24   40   80  112  192  320  1280
    image /     2    2    4    8   16   16   32   32    32

Its weights were trained on pixels (x − 127) / 128; the range -1 to 1 is close enough.
"""

import keras

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.config import Serializable
from tfx_transformer.layers.norm import ReplicaBatchNormalization

STAGES = {  # expansion, kernel, stride, channels, blocks; the stem is 1, the last convolution 9
    2: (1, 3, 1, 16, 1),
    3: (6, 3, 2, 24, 2),
    4: (6, 5, 2, 40, 2),
    5: (6, 3, 2, 80, 3),
    6: (6, 5, 1, 112, 3),
    7: (6, 5, 2, 192, 4),
    8: (6, 3, 1, 320, 1),
}
STEM_DIM, HEAD_DIM = 32, 1280


class ConvNorm(Serializable, keras.layers.Layer):
    """Convolution without bias, batch norm, activation: (B, h, w, C) → (B, h/stride, w/stride, D).

    Args:
        dim: D; None for a depthwise convolution.
        kernel_size, stride: of the convolution; padding "same" as in TensorFlow.
        activation: a Keras name, or None.
    """

    def __init__(self, dim, kernel_size=3, stride=1, activation="relu6", **kwargs):
        super().__init__(**kwargs)
        check_positive(kernel_size=kernel_size, stride=stride)
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
        self.norm = ReplicaBatchNormalization(momentum=0.99, epsilon=1e-3, name="norm", **shared)
        self.activate = keras.activations.get(activation)

    def build(self, x_shape):
        self.convolution.build(x_shape)
        self.norm.build((*x_shape[:-1], self.dim or x_shape[-1]))

    def call(self, x, training=None):
        return self.activate(self.norm(self.convolution(x), training=training))


class InvertedBottleneck(Serializable, keras.layers.Layer):
    """Expansion, depthwise convolution, projection (arXiv:1801.04381); with a residual if the shape
    stays the same.

    Args:
        dim: output channels.
        expansion: factor by which the channels are expanded.
        kernel_size, stride: of the depthwise convolution.
    """

    def __init__(self, dim, expansion, kernel_size, stride=1, **kwargs):
        super().__init__(**kwargs)
        check_positive(dim=dim, expansion=expansion, kernel_size=kernel_size, stride=stride)

    def build(self, x_shape):
        channels, shared = x_shape[-1], {"dtype": self.dtype_policy}
        expanded = (*x_shape[:-1], self.expansion * channels)
        if self.expansion > 1:
            self.expand = ConvNorm(expanded[-1], 1, name="expand", **shared)
            self.expand.build(x_shape)
        self.depthwise = ConvNorm(None, self.kernel_size, self.stride, name="depthwise", **shared)
        self.depthwise.build(expanded)
        self.project = ConvNorm(self.dim, 1, activation=None, name="project", **shared)
        self.project.build(expanded)
        self.residual = self.stride == 1 and channels == self.dim

    def call(self, x, training=None):
        y = self.expand(x, training=training) if self.expansion > 1 else x
        y = self.project(self.depthwise(y, training=training), training=training)
        return x + y if self.residual else y


class EfficientNetLite0(Serializable, keras.layers.Layer):
    """Images (B, h, w, 3) → a feature map (B, rows, columns, C).

    Args:
        stage: last stage, 2 … 9 in the table above.

    `dim` is C, and `stride` the pixels from one cell of the map to the next.
    """

    def __init__(self, stage=9, **kwargs):
        super().__init__(**kwargs)
        check_choice(*STAGES, 9, stage=stage)
        self.stride = 2
        shared = {"dtype": self.dtype_policy}
        self.stem = ConvNorm(STEM_DIM, 3, 2, name="stem", **shared)
        self.blocks = []
        for expansion, kernel_size, stride, dim, depth in list(STAGES.values())[: stage - 1]:
            self.stride *= stride
            for i in range(depth):
                name, block_stride = f"block_{len(self.blocks)}", 1 if i else stride
                self.blocks.append(
                    InvertedBottleneck(
                        dim, expansion, kernel_size, block_stride, name=name, **shared
                    )
                )
        self.dim = HEAD_DIM if stage == 9 else STAGES[stage][3]
        if stage == 9:
            self.head = ConvNorm(HEAD_DIM, 1, name="head", **shared)

    def all_layers(self):
        """Layers in the order in which they are applied."""
        return [self.stem, *self.blocks, *([self.head] if self.stage == 9 else [])]

    def input_shapes(self):
        return None, None, None, 3

    def build(self, images_shape):
        shape = (None, None, None, images_shape[-1])
        for layer in self.all_layers():
            layer.build(shape)
            shape = (None, None, None, layer.dim)

    def call(self, images, training=None):
        x = images
        for layer in self.all_layers():
            x = layer(x, training=training)
        return x
