"""MLP-Mixer: an image classifier made only of MLPs (arXiv:2105.01601).

    image → patches → [mix across patches, across channels] × depth → norm → mean → class logits

There is no attention, and there are no positions: the weights that mix patches know them by their
number, and so images have one size.
"""

from typing import Any

import keras
from keras import ops

from tfx_transformer.checks import check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import NORM, DropPath, FeedForward, PatchEmbedding
from tfx_transformer.layers.dense import apply_dense, build_dense

SMALL: dict[str, Any] = dict(image_size=224, dim=512, depth=8, token_mlp_dim=256, mlp_dim=2048)
BASE: dict[str, Any] = dict(image_size=224, dim=768, depth=12, token_mlp_dim=384, mlp_dim=3072)
LARGE: dict[str, Any] = dict(image_size=224, dim=1024, depth=24, token_mlp_dim=512, mlp_dim=4096)
HUGE: dict[str, Any] = dict(image_size=224, dim=1280, depth=32, token_mlp_dim=640, mlp_dim=5120)
VARIANTS: dict[str, dict[str, Any]] = {  # table 1 of the paper
    "tiny": dict(image_size=16, patch_size=4, dim=12, depth=2, token_mlp_dim=10, mlp_dim=24),
    "cifar": dict(  # our own, for images of 32 × 32
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


class MixerBlock(Configured, keras.layers.Layer):
    """One MLP along the patches, one along the channels: (B, N, D) → (B, N, D).

    Args:
        token_mlp_dim: width of the MLP that sees all patches of one channel.
        mlp_dim: F, of the MLP that sees all channels of one patch.
        activation, norm, dropout, drop_path, initializer: as in `TransformerBlock`.
    """

    def __init__(
        self,
        token_mlp_dim,
        mlp_dim,
        activation="gelu",
        norm="layer",
        dropout=0.0,
        drop_path=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(token_mlp_dim=token_mlp_dim)
        self.token_mlp_dim, self.mlp_dim = token_mlp_dim, mlp_dim
        self.activation, self.norm, self.initializer = activation, norm, initializer
        self.dropout, self.drop_path = dropout, drop_path

        shared = {"dtype": self.dtype_policy}
        begin = shared | {"initializer": initializer}
        self.token_norm = NORM.make(norm, name="token_norm", **shared)
        self.token_mlp = FeedForward(token_mlp_dim, activation, name="token_mlp", **begin)
        self.mlp_norm = NORM.make(norm, name="mlp_norm", **shared)
        self.mlp = FeedForward(mlp_dim, activation, name="mlp", **begin)
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        self.skip = DropPath(drop_path, name="skip", **shared)

    def build(self, x_shape):
        _, patches, dim = x_shape
        self.token_norm.build(x_shape)
        self.token_mlp.build((None, dim, patches))
        self.mlp_norm.build(x_shape)
        self.mlp.build(x_shape)

    def call(self, x, training=None):
        def drop(x):
            return self.skip(self.drop(x, training=training), training=training)

        y = self.token_norm(x, training=training)
        y = self.token_mlp(ops.swapaxes(y, 1, 2), training=training)  # (B, D, N)
        x = x + drop(ops.swapaxes(y, 1, 2))  # (B, N, D)
        y = self.mlp_norm(x, training=training)
        x = x + drop(self.mlp(y, training=training))
        return x


class MLPMixer(Configured, keras.Model):
    """Classifies: images (B, h, w, C) → logits (B, num_classes).

    Args:
        num_classes: of the head.
        image_size: h = w; it fixes the number of patches, and with it the weights.
        patch_size: P.
        dim, depth, token_mlp_dim, mlp_dim: D; blocks; widths of a block's two MLPs.
        channels: C.
        projection: of patches, "conv" or "dense", which compute the same.
        activation, norm, dropout, drop_path, initializer: as in `TransformerBlock`; dropout also
            falls on the embedded patches, drop_path grows with the depth.
    """

    variants = VARIANTS

    def __init__(
        self,
        num_classes,
        image_size,
        patch_size,
        dim,
        depth,
        token_mlp_dim,
        mlp_dim,
        channels=3,
        projection="conv",
        activation="gelu",
        norm="layer",
        dropout=0.0,
        drop_path=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(num_classes=num_classes, image_size=image_size, depth=depth)
        check_positive(channels=channels)
        check_rate(dropout=dropout, drop_path=drop_path)
        self.num_classes, self.image_size, self.channels = num_classes, image_size, channels
        self.patch_size, self.dim, self.depth = patch_size, dim, depth
        self.token_mlp_dim, self.mlp_dim, self.projection = token_mlp_dim, mlp_dim, projection
        self.activation, self.norm, self.initializer = activation, norm, initializer
        self.dropout, self.drop_path = dropout, drop_path

        shared = {"dtype": self.dtype_policy}
        self.patches = PatchEmbedding(
            patch_size, dim, projection, initializer, name="patches", **shared
        )
        self.patches.grid((None, image_size, image_size, channels))  # or an early error
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        self.blocks = [
            MixerBlock(
                token_mlp_dim,
                mlp_dim,
                activation=activation,
                norm=norm,
                dropout=dropout,
                drop_path=drop_path * i / max(depth - 1, 1),
                initializer=initializer,
                name=f"block_{i}",
                **shared,
            )
            for i in range(depth)
        ]
        self.last_norm = NORM.make(norm, name="last_norm", **shared)

    def build(self, images_shape):
        images = (None, self.image_size, self.image_size, self.channels)
        rows, columns = self.patches.grid(images)
        self.patches.build(images)
        shape = (None, rows * columns, self.dim)
        for layer in (*self.blocks, self.last_norm):
            layer.build(shape)
        self.head = build_dense(self, "head", self.dim, self.num_classes)

    def call(self, images, training=None):
        size = self.image_size
        if tuple(images.shape[1:3]) != (size, size):
            raise ValueError(
                f"images must be image_size={size} high and wide; got images {tuple(images.shape)}"
            )
        x = self.drop(self.patches(images), training=training)  # (B, N, D)
        for block in self.blocks:
            x = block(x, training=training)
        x = ops.mean(self.last_norm(x, training=training), axis=1)  # (B, D)
        return apply_dense(self.head, x)

    def attention_maps(self, images):
        """{}: no attention."""
        return {}
