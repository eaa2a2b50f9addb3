"""Attention over every pixel of a shrunken image (arXiv:1802.05751; iGPT).

    image → shrink → a token for each pixel + positions → block × depth → norm → mean → class logits

Attention compares each pixel with each other one: with 32 × 32 of them a map has a million weights,
with 224 × 224 it would have 2.5 billion. So the image is shrunken; the Vision Transformer cuts
patches instead.
"""

import keras

from tfx_transformer.checks import check_divides
from tfx_transformer.config import Configured
from tfx_transformer.models.vit import ViT


class PixelTransformer(Configured, keras.Model):
    """Classifies: images (B, h, w, C) → logits (B, num_classes).

    Args:
        num_classes: of the head.
        image_size: h = w of the images.
        side: of the shrunken image, side × side tokens; divides `image_size`.
        dim, depth, num_heads, mlp_dim: D; blocks; H; F.
        channels: C.
        position, attention, dropout, drop_path: as in `ViT`.
    """

    variants = {
        "tiny": dict(image_size=8, side=4, dim=16, depth=2, num_heads=4, mlp_dim=24),
        "small": dict(image_size=32, side=16, dim=128, depth=4, num_heads=4, mlp_dim=256),
    }

    def __init__(
        self,
        num_classes,
        image_size,
        side,
        dim,
        depth,
        num_heads,
        mlp_dim,
        channels=3,
        position="learned",
        attention="multi_head",
        dropout=0.0,
        drop_path=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_divides(side=side, image_size=image_size)
        self.num_classes, self.image_size, self.side = num_classes, image_size, side
        self.dim, self.depth, self.num_heads, self.mlp_dim = dim, depth, num_heads, mlp_dim
        self.channels, self.position, self.attention = channels, position, attention
        self.dropout, self.drop_path = dropout, drop_path

        shared = {"dtype": self.dtype_policy}
        self.shrink = keras.layers.AveragePooling2D(image_size // side, name="shrink", **shared)
        self.pixels = ViT(
            num_classes,
            side,
            dim,
            depth,
            num_heads,
            mlp_dim,
            patch_size=1,
            num_tokens=0,
            channels=channels,
            position=position,
            attention=attention,
            dropout=dropout,
            drop_path=drop_path,
            name="pixels",
            **shared,
        )

    def build(self, images_shape):
        self.pixels.build((None, self.side, self.side, self.channels))

    def call(self, images, training=None):
        return self.pixels(self.shrink(images), training=training)

    def attention_maps(self, images):
        """{"block_0/self": (B, H, N, N), …}, N = side²."""
        if not self.built:
            self.build(images.shape)
        return self.pixels.attention_maps(self.shrink(images))
