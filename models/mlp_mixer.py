"""MLP-Mixer: an image classifier made only of MLPs (arXiv:2105.01601).

    image → patches → [mix across patches, across channels] × depth → norm → mean → class logits

No attention and no position embedding: the weights that mix patches depend on their number, so
all images have one size.
"""

from typing import Any

from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.layers import NORM, FeedForward, PatchEmbedding
from tfx_transformer.layers.block import ResidualBlock
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.models.base import ImageModel, Published, check_images

SMALL: dict[str, Any] = dict(image_size=224, dim=512, depth=8, token_mlp_dim=256, mlp_dim=2048)
BASE: dict[str, Any] = dict(image_size=224, dim=768, depth=12, token_mlp_dim=384, mlp_dim=3072)
LARGE: dict[str, Any] = dict(image_size=224, dim=1024, depth=24, token_mlp_dim=512, mlp_dim=4096)
HUGE: dict[str, Any] = dict(image_size=224, dim=1280, depth=32, token_mlp_dim=640, mlp_dim=5120)
VARIANTS: dict[str, dict[str, Any]] = {  # table 1 of the paper
    "test": dict(image_size=16, patch_size=4, dim=12, depth=2, token_mlp_dim=10, mlp_dim=24),
    "cifar": dict(  # not in the paper, for images of 32 × 32
        image_size=32, patch_size=4, dim=128, depth=4, token_mlp_dim=64, mlp_dim=512
    ),
    "s16": SMALL | dict(patch_size=16),
    "s32": SMALL | dict(patch_size=32),
    "b16": BASE | dict(patch_size=16),
    "b32": BASE | dict(patch_size=32),
    "l16": LARGE | dict(patch_size=16),
    "l32": LARGE | dict(patch_size=32),
    "h14": HUGE | dict(patch_size=14),
}


class MixerBlock(ResidualBlock):
    """One MLP along the patches, one along the channels: (B, N, D) → (B, N, D).

    Args:
        token_mlp_dim: width of the MLP over the patches of a channel.
        mlp_dim: width of the MLP over the channels of a patch.
        activation, norm, dropout, drop_path, initializer: as in `TransformerBlock`.
    """

    def __init__(self, token_mlp_dim, mlp_dim, **kwargs):
        super().__init__(mlp_dim, **kwargs)
        check_positive(token_mlp_dim=token_mlp_dim)
        self.token_mlp = self.make(
            FeedForward, mlp_dim=token_mlp_dim, dropout=0.0, name="token_mlp"
        )

    def build(self, x_shape):
        _, patches, dim = x_shape
        self.token_mlp.build((None, dim, patches))
        super().build(x_shape)

    def mix(self, x, training):
        y = self.token_mlp(ops.swapaxes(x, 1, 2), training=training)  # (B, D, N)
        return ops.swapaxes(y, 1, 2), ()  # (B, N, D), no attention scores


class MLPMixer(ImageModel):
    """Image classifier: images (B, h, w, C) → logits (B, num_classes).

    Pixels are floats, normalized by mean and deviation; normalization "half" is -1 to 1.

    Args:
        num_classes: number of classes; 0 returns features (B, D) instead of logits.
        image_size: height and width of the images; the weights work for this size only.
        patch_size: height and width of a patch.
        dim: width D of a patch vector, its channels.
        depth: number of blocks.
        token_mlp_dim: width of the MLP over the patches of a channel.
        mlp_dim: width of the MLP over the channels of a patch.
        channels: color channels of the images.
        activation: activation of the MLPs.
        norm: a name in NORM, or a dict of its options.
        dropout: dropout rate of embedded patches and of each block's MLPs.
        drop_path: rate at which the last block is skipped; it grows linearly over the blocks.
        initializer: Keras initializer of the kernels.
    """

    published = Published(
        "2105.01601",
        {"num_classes": 1000},
        {
            "s16": 18_528_264,
            "s32": 19_104_624,
            "b16": 59_880_472,
            "b32": 60_293_428,
            "l16": 208_196_168,
            "l32": 206_939_264,
            "h14": 432_350_952,
        },
    )
    variants = VARIANTS

    def __init__(
        self,
        num_classes: int,
        image_size: int,
        patch_size: int,
        dim: int,
        depth: int,
        token_mlp_dim: int,
        mlp_dim: int,
        channels: int = 3,
        activation: str = "gelu",
        norm: str | dict[str, Any] = "layer",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.patches = self.make(PatchEmbedding, name="patches")
        self.patches.grid(self.input_shapes())  # raises early if patches do not fit
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.blocks = self.make_blocks(MixerBlock, depth)
        self.last_norm = NORM.make(norm, name="last_norm", dtype=self.dtype_policy)

    def build_layers(self):
        rows, columns = self.patches.grid(self.input_shapes())
        self.patches.build(self.input_shapes())
        shape = (None, rows * columns, self.dim)
        for layer in (*self.blocks, self.last_norm):
            layer.build(shape)
        self.build_head(self.dim)

    def layer_groups(self):
        return [[self.patches], *([block] for block in self.blocks)]

    def encode(self, images, training=None):
        """(B, h, w, C) → features (B, D), and no attention scores."""
        check_images(images, self.channels)
        size = self.image_size
        if tuple(images.shape[1:3]) != (size, size):
            raise ValueError(
                f"images must be image_size={size} high and wide; got images {tuple(images.shape)}"
            )
        x = self.drop(self.patches(images), training=training)  # (B, N, D)
        for block in self.blocks:
            x = block(x, training=training)
        return ops.mean(self.last_norm(x, training=training), axis=1), {}
