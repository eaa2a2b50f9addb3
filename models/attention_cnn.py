"""Convolutional networks with attention: image classifiers before the Vision Transformer.

    image → convolution → stage × n → norm → mean → class logits
    stage: downsample (not in the first) → block × depth → [attention over the whole grid]

Two options give three networks: convolutions alone; attention *between* convolutions, over all
cells of the coarser grids (arXiv:1711.07971, arXiv:1805.08318); attention *instead of*
convolutions, from each cell to its neighbors (arXiv:1906.05909).
"""

from typing import Any, Literal

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.layers import NORM, MultiHeadAttention, NeighborhoodAttention
from tfx_transformer.layers.block import ResidualBlock
from tfx_transformer.models.base import ImageModel, Published, check_images

SIZES: dict[str, Any] = dict(image_size=32, dims=(64, 128, 256), depth=2, num_heads=4)


def make_convolution(owner, dim, size, stride=1, *, name):
    """A convolution with the initializer and dtype of `owner`."""
    options = {"kernel_initializer": owner.initializer, "dtype": owner.dtype_policy, "name": name}
    return keras.layers.Conv2D(dim, size, stride, padding="same", **options)


class MixingBlock(ResidualBlock):
    """Convolution or attention, then feed-forward, each after a norm and with a residual.

    Args:
        dim, num_heads, mlp_dim, norm, dropout, initializer: as in `TransformerBlock`.
        kind: "convolution" or "local" attention in a neighborhood, or "global" attention.
        window: height and width w of the convolution or neighborhood in cells.

    Returns:
        The output (B, h, w, D); with `return_attention_scores` also the scores, (B, H, N, w²) or
        (B, H, N, N), or () of a convolution.
    """

    def __init__(self, dim, num_heads, mlp_dim, kind="convolution", window=3, **kwargs):
        super().__init__(mlp_dim, **kwargs)
        check_choice("convolution", "local", "global", kind=kind)
        if kind == "convolution":
            self.mixer = make_convolution(self, dim, window, name="mix")
        else:
            attention = NeighborhoodAttention if kind == "local" else MultiHeadAttention
            self.mixer = self.make(attention, dropout=0.0, name="mix")

    def build(self, x_shape):
        self.mixer.build((None, None, self.dim) if self.kind == "global" else x_shape)
        super().build(x_shape)

    def mix(self, x, training):
        if self.kind == "convolution":
            return self.mixer(x), ()
        if self.kind == "local":
            return self.mixer.attend(x, training=training)[:2]
        _, height, width, dim = ops.shape(x)
        tokens = ops.reshape(x, (-1, height * width, dim))
        y, scores, _ = self.mixer.attend(tokens, training=training)
        return ops.reshape(y, (-1, height, width, dim)), scores


class AttentionCNN(ImageModel):
    """Image classifier: images (B, h, w, C) → logits (B, num_classes).

    Pixels are floats, normalized by mean and deviation; normalization "half" is -1 to 1.

    Args:
        num_classes: number of classes; 0 returns features (B, D) instead of logits.
        image_size: height and width of the images; the weights work for any other size too.
        dims: channels of each stage; each stage after the first halves the grid.
        depth: number of blocks in a stage.
        num_heads: attention heads; divides all `dims`.
        mix: layer that mixes neighboring cells: "convolution", or "local" attention.
        global_attention: whether each stage but the first ends with attention over all its cells.
        window: height and width of a convolution or neighborhood in cells.
        patch_size: size and stride of the first convolution.
        channels: color channels of the images.
        norm: a name in NORM, or a dict of its options.
        dropout: dropout rate of each block's layers.
        initializer: Keras initializer of the kernels.
    """

    published = Published("1711.07971, 1805.08318, 1906.05909", {"num_classes": 10})
    variants = {
        "test": dict(image_size=8, dims=(8, 12), depth=1, num_heads=2, window=3, patch_size=1),
        "cnn": SIZES | dict(global_attention=False),
        "hybrid": SIZES,
        "local": SIZES | dict(mix="local", global_attention=False, window=7),
    }

    def __init__(
        self,
        num_classes: int,
        image_size: int,
        dims: tuple[int, ...],
        depth: int,
        num_heads: int,
        mix: Literal["convolution", "local"] = "convolution",
        global_attention: bool = True,
        window: int = 3,
        patch_size: int = 2,
        channels: int = 3,
        norm: str | dict[str, Any] = "layer",
        dropout: float = 0.0,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(patch_size=patch_size)
        check_choice("convolution", "local", mix=mix)
        if not dims:
            raise ValueError(f"dims must hold the width of a stage or more; got dims={dims!r}")

        def block(stage, kind, name):
            dim = dims[stage]
            name = f"stage_{stage}_{name}"
            return self.make(MixingBlock, dim=dim, mlp_dim=2 * dim, kind=kind, name=name)

        sizes = [patch_size] + [2] * (len(dims) - 1)
        self.downsample = [
            make_convolution(self, dim, size, size, name=f"downsample_{stage}")
            for stage, (dim, size) in enumerate(zip(dims, sizes, strict=True))
        ]
        self.stages = [
            [block(stage, mix, f"block_{i}") for i in range(depth)]
            + ([block(stage, "global", "global")] if global_attention and stage else [])
            for stage in range(len(dims))
        ]
        self.last_norm = NORM.make(norm, name="last_norm", dtype=self.dtype_policy)

    def build_layers(self):
        shape = self.input_shapes()
        for downsample, blocks in zip(self.downsample, self.stages, strict=True):
            downsample.build(shape)
            shape = downsample.compute_output_shape(shape)
            for block in blocks:
                block.build(shape)
        self.last_norm.build(shape)
        self.build_head(shape[-1])

    def layer_groups(self):
        groups = []
        for downsample, (first, *others) in zip(self.downsample, self.stages, strict=True):
            groups += [[downsample, first], *([block] for block in others)]
        return groups

    def encode(self, images, training=None):
        """(B, h, w, C) → features (B, D), and attention maps: {"stage_1_global/self": (B, H, N, N),
        …}; of neighborhoods (B, H, N, w²)."""
        check_images(images, self.channels)
        x, scores = images, {}
        for downsample, blocks in zip(self.downsample, self.stages, strict=True):
            x = downsample(x)  # (B, h, w, D)
            for block in blocks:
                x, block_scores, _ = block.attend(x, training=training)
                if block.kind != "convolution":
                    scores[f"{block.name}/self"] = block_scores
        return ops.mean(self.last_norm(x, training=training), axis=(1, 2)), scores
