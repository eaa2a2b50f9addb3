"""Swin Transformer: attention in shifted windows on coarser and coarser grids (arXiv:2103.14030).

    image → patches → norm → stage × 4 → norm → mean → class logits
    stage: merge 2 × 2 cells (not in the first) → block × depth; every second block shifts windows

Images may have any size: patches, merges and windows at the bottom and right edges are padded with
zeros, which attention masks. (The published code does not mask the padding of windows: results are
equal only where windows fill the grid.)
"""

from typing import Any

import keras
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.config import Serializable
from tfx_transformer.layers import NORM, PatchEmbedding, WindowAttention
from tfx_transformer.layers.block import ResidualBlock
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.models.base import ImageModel, Published, check_images

SHARED: dict[str, Any] = dict(
    image_size=224, patch_size=4, window=7, norm={"kind": "layer", "epsilon": 1e-5}
)
SMALL, LARGE = (3, 6, 12, 24), (4, 8, 16, 32)  # heads in each stage
VARIANTS: dict[str, dict[str, Any]] = {  # section 3.3 of the paper
    "test": SHARED
    | dict(image_size=16, patch_size=2, window=2)
    | dict(dim=8, depth=(2, 1), num_heads=(2, 4), mlp_dim=20),
    "cifar": SHARED  # not in the paper, for images of 32 × 32
    | dict(image_size=32, patch_size=2, window=4)
    | dict(dim=64, depth=(2, 4), num_heads=(2, 4), mlp_dim=128),
    "t": SHARED | dict(dim=96, depth=(2, 2, 6, 2), num_heads=SMALL, mlp_dim=384),
    "s": SHARED | dict(dim=96, depth=(2, 2, 18, 2), num_heads=SMALL, mlp_dim=384),
    "b": SHARED | dict(dim=128, depth=(2, 2, 18, 2), num_heads=LARGE, mlp_dim=512),
    "l": SHARED | dict(dim=192, depth=(2, 2, 18, 2), num_heads=(6, 12, 24, 48), mlp_dim=768),
}


def pad_to_multiple(x, size):
    """Pad (B, h, w, C) with zeros at the bottom and right until `size` divides h and w."""
    if None in x.shape[1:3]:
        raise ValueError(f"height and width must be known; got images {tuple(x.shape)}")
    bottom, right = (-length % size for length in x.shape[1:3])
    return ops.pad(x, ((0, 0), (0, bottom), (0, right), (0, 0))) if bottom or right else x


class PatchMerging(Serializable, keras.layers.Layer):
    """Merge 2 × 2 cells into one: (B, h, w, D) → (B, ⌈h/2⌉, ⌈w/2⌉, 2D)."""

    def __init__(self, norm="layer", initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.merge_norm = NORM.make(norm, name="merge_norm", dtype=self.dtype_policy)

    def build(self, x_shape):
        dim = x_shape[-1]
        self.merge_norm.build((None, None, None, 4 * dim))
        self.reduction = build_dense(self, "reduction", 4 * dim, 2 * dim, use_bias=False)

    def call(self, x, training=None):
        x = pad_to_multiple(x, 2)
        cells = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        x = self.merge_norm(ops.concatenate(cells, axis=-1), training=training)  # (B, h/2, w/2, 4D)
        return apply_dense(self.reduction, x)


class SwinBlock(ResidualBlock):
    """Window attention, then feed-forward, each after a norm and with a residual.

    Args:
        dim, num_heads, mlp_dim, activation, norm, dropout, drop_path, initializer: as in
            `TransformerBlock`.
        window, shift: as in `WindowAttention`.

    Returns:
        The output (B, h, w, D); with `return_attention_scores` also the scores
        (B, number of windows, H, window², window²).
    """

    def __init__(self, dim, num_heads, mlp_dim, window=7, shift=0, **kwargs):
        super().__init__(mlp_dim, **kwargs)
        self.self_attention = self.make(WindowAttention, dropout=0.0, name="self_attention")

    def build(self, x_shape):
        self.self_attention.build(x_shape)
        super().build(x_shape)

    def mix(self, x, training):
        return self.self_attention.attend(x, training=training)[:2]


class Swin(ImageModel):
    """Image classifier: images (B, h, w, C) → logits (B, num_classes).

    Pixels are floats, normalized by mean and deviation; normalization "half" is -1 to 1.

    Args:
        num_classes: number of classes; 0 returns features (B, D) instead of logits.
        image_size: height and width of the images; the weights work for any other size too.
        dim: width of the tokens in the first stage; each further stage doubles it.
        depth: number of blocks of each stage, such as (2, 2, 6, 2).
        num_heads: attention heads of each stage, such as (3, 6, 12, 24).
        mlp_dim: width of the first stage's feed-forward layers; each further stage doubles it.
        window: height and width of a window in cells; every second block shifts windows by half.
        patch_size: height and width of a patch.
        channels: color channels of the images.
        activation: activation of the feed-forward layers.
        norm: a name in NORM, or a dict of its options.
        dropout: dropout rate of embedded patches and of each block's layers.
        drop_path: rate at which the last block is skipped; it grows linearly over the blocks.
        initializer: Keras initializer of the kernels.
    """

    published = Published(
        "2103.14030",
        {"num_classes": 1000},
        {"t": 28_288_354, "s": 49_606_258, "b": 87_768_224, "l": 196_532_476},
    )
    variants = VARIANTS

    def __init__(
        self,
        num_classes: int,
        image_size: int,
        dim: int,
        depth: tuple[int, ...],
        num_heads: tuple[int, ...],
        mlp_dim: int,
        window: int = 7,
        patch_size: int = 4,
        channels: int = 3,
        activation: str = "gelu",
        norm: str | dict[str, Any] = "layer",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(window=window)
        for name, sizes in (("depth", depth), ("num_heads", num_heads)):
            if not isinstance(sizes, list | tuple) or not sizes:
                raise ValueError(f"{name} must be a list with a number for each stage; got {sizes}")
        if len(depth) != len(num_heads):
            raise ValueError(
                "depth and num_heads must have a number for each stage; "
                f"got depth={depth}, num_heads={num_heads}"
            )

        self.patches = self.make(PatchEmbedding, name="patches")
        self.patch_norm = NORM.make(norm, name="patch_norm", dtype=self.dtype_policy)
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        self.merges = [self.make(PatchMerging, name=f"merge_{i}") for i in range(1, len(depth))]
        self.blocks: list[SwinBlock] = []
        for stage, count in enumerate(depth):
            for i in range(count):
                index = len(self.blocks)
                block = self.make(
                    SwinBlock,
                    dim=dim * 2**stage,
                    num_heads=num_heads[stage],
                    mlp_dim=mlp_dim * 2**stage,
                    shift=i % 2 * (window // 2),
                    drop_path=drop_path * index / max(sum(depth) - 1, 1),
                    name=f"block_{index}",
                )
                self.blocks.append(block)
        self.last_norm = NORM.make(norm, name="last_norm", dtype=self.dtype_policy)

    def build_layers(self):
        rows = columns = -(-self.image_size // self.patch_size)  # of cells
        size = rows * self.patch_size  # of the padded image
        self.patches.build((None, size, size, self.channels))
        shape = (None, rows, columns, self.dim)
        self.patch_norm.build(shape)
        for merge, blocks in self.stages():
            if merge is not None:
                merge.build(shape)
                rows, columns = -(-rows // 2), -(-columns // 2)
                shape = (None, rows, columns, 2 * shape[-1])
            for block in blocks:
                block.build(shape)
        self.last_norm.build(shape)
        self.build_head(shape[-1])

    def stages(self):
        """The merge of each stage, None in the first, and its blocks."""
        start = 0
        for merge, count in zip((None, *self.merges), self.depth, strict=True):
            yield merge, self.blocks[start : start + count]
            start += count

    def layer_groups(self):
        groups = [[self.patches, self.patch_norm]]
        for merge, (first, *others) in self.stages():
            groups += [[first] if merge is None else [merge, first], *([block] for block in others)]
        return groups

    def encode(self, images, training=None):
        """(B, h, w, C) → features (B, D), and of each block its grid and its scores."""
        check_images(images, self.channels)
        images = pad_to_multiple(images, self.patch_size)
        grid = self.patches.grid(images.shape)
        x = ops.reshape(self.patches(images), (-1, *grid, self.dim))  # (B, h/P, w/P, D)
        x = self.drop(self.patch_norm(x, training=training), training=training)
        scores = []
        for merge, blocks in self.stages():
            if merge is not None:
                x = merge(x, training=training)  # half as many rows and columns, D twice as wide
            for block in blocks:
                x, block_scores, _ = block.attend(x, training=training)
                scores.append((x.shape[1:3], block_scores))
        x = self.last_norm(x, training=training)
        return ops.mean(x, axis=(1, 2)), scores

    def attention_maps(self, images):
        """{"block_0/self": (B, H, N, N), …}, N the cells of the block's grid, row by row.

        Large: scores are 0 between cells of different windows.
        """
        _, scores = self.encode(images)
        return {
            f"block_{i}/self": block.self_attention.on_grid(block_scores, *grid)
            for i, (block, (grid, block_scores)) in enumerate(zip(self.blocks, scores, strict=True))
        }
