"""Self-attention over the pixels of a downsampled image (arXiv:1802.05751; iGPT).

    image → downsample → a token per pixel + positions → block × depth → norm → mean → class logits

Attention compares every pair of pixels: a map of 32 × 32 pixels has a million scores, one of
224 × 224 would have 2.5 billion. So the image is downsampled; the Vision Transformer uses patches.
"""

from typing import Any

import keras

from tfx_transformer.checks import check_divides
from tfx_transformer.models.base import ImageModel, Published, check_images
from tfx_transformer.models.vit import ViT


class PixelTransformer(ImageModel):
    """Image classifier: images (B, h, w, C) → logits (B, num_classes).

    Pixels are floats, normalized by mean and deviation; normalization "half" is -1 to 1.

    Args:
        num_classes: number of classes; 0 returns features (B, D) instead of logits.
        image_size: height and width of the images.
        grid_size: height and width of the downsampled image; divides `image_size`.
        dim: width D of the tokens.
        depth: number of blocks.
        num_heads: attention heads of a block; divides `dim`.
        mlp_dim: width of the feed-forward layers.
        channels: color channels of the images.
        position: position embedding: "learned", "sincos_2d", or a name in POSITION that acts on
            tokens, or a dict of its options.
        attention: a name in ATTENTION, or a dict of its options.
        dropout: dropout rate of embedded pixels and of each block's layers.
        drop_path: rate at which the last block is skipped; it grows linearly over the blocks.
    """

    published = Published("1802.05751", {"num_classes": 10})
    variants = {
        "test": dict(image_size=8, grid_size=4, dim=16, depth=2, num_heads=4, mlp_dim=24),
        "small": dict(image_size=32, grid_size=16, dim=128, depth=4, num_heads=4, mlp_dim=256),
    }

    def __init__(
        self,
        num_classes: int,
        image_size: int,
        grid_size: int,
        dim: int,
        depth: int,
        num_heads: int,
        mlp_dim: int,
        channels: int = 3,
        position: str | dict[str, Any] = "learned",
        attention: str | dict[str, Any] = "multi_head",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_divides(grid_size=grid_size, image_size=image_size)

        self.downsample = self.make(
            keras.layers.AveragePooling2D, pool_size=image_size // grid_size, name="downsample"
        )
        self.vit = self.make(ViT, image_size=grid_size, patch_size=1, num_tokens=0, name="vit")

    def build_layers(self):
        self.vit.build(self.vit.input_shapes())

    def layer_groups(self):
        return self.vit.layer_groups()

    def call(self, images, training=None):
        check_images(images, self.channels)
        return self.vit(self.downsample(images), training=training)

    def attention_maps(self, images):
        """{"block_0/self": (B, H, N, N), …}, N = grid_size²."""
        check_images(images, self.channels)
        return self.vit.attention_maps(self.downsample(images))
