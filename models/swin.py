"""The Swin Transformer: attention in shifted windows, at ever coarser grids (arXiv:2103.14030).

    image → patches → norm → stage × 4 → norm → mean → class logits
    stage: merge 2 × 2 cells (but in the first) → block × depth, its windows shifted in every other

Images may have any size: patches, merges and windows at the lower and the right edge are filled up
with zeros, which attention never sees. (The published code lets it see those of windows: there it
computes the same only where windows fill the grid.)
"""

from typing import Any

import keras
from keras import ops

from tfx_transformer.checks import check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import NORM, DropPath, FeedForward, PatchEmbedding, WindowAttention
from tfx_transformer.layers.dense import apply_dense, build_dense

SHARED: dict[str, Any] = dict(
    image_size=224, patch_size=4, window=7, norm={"kind": "layer", "epsilon": 1e-5}
)
SMALL, LARGE = (3, 6, 12, 24), (4, 8, 16, 32)  # heads in each stage
VARIANTS: dict[str, dict[str, Any]] = {  # section 3.3 of the paper
    "tiny": SHARED
    | dict(image_size=16, patch_size=2, window=2)
    | dict(dim=8, depth=(2, 1), num_heads=(2, 4), mlp_dim=20),
    "cifar": SHARED  # our own, for images of 32 × 32
    | dict(image_size=32, patch_size=2, window=4)
    | dict(dim=64, depth=(2, 4), num_heads=(2, 4), mlp_dim=128),
    "t": SHARED | dict(dim=96, depth=(2, 2, 6, 2), num_heads=SMALL, mlp_dim=384),
    "s": SHARED | dict(dim=96, depth=(2, 2, 18, 2), num_heads=SMALL, mlp_dim=384),
    "b": SHARED | dict(dim=128, depth=(2, 2, 18, 2), num_heads=LARGE, mlp_dim=512),
    "l": SHARED | dict(dim=192, depth=(2, 2, 18, 2), num_heads=(6, 12, 24, 48), mlp_dim=768),
}


def fill_up(x, size):
    """(B, h, w, C) with zeros below and at the right, until `size` divides h and w."""
    below, right = (-side % size for side in x.shape[1:3])
    return ops.pad(x, ((0, 0), (0, below), (0, right), (0, 0))) if below or right else x


class PatchMerging(Configured, keras.layers.Layer):
    """Makes 2 × 2 cells one that is twice as wide: (B, h, w, D) → (B, ⌈h/2⌉, ⌈w/2⌉, 2D).

    Args:
        norm, initializer: as in `TransformerBlock`.
    """

    def __init__(self, norm="layer", initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.norm, self.initializer = norm, initializer
        self.merge_norm = NORM.make(norm, name="merge_norm", dtype=self.dtype_policy)

    def build(self, x_shape):
        dim = x_shape[-1]
        self.merge_norm.build((None, None, None, 4 * dim))
        self.reduction = build_dense(self, "reduction", 4 * dim, 2 * dim, use_bias=False)

    def call(self, x, training=None):
        x = fill_up(x, 2)
        cells = [x[:, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        x = self.merge_norm(ops.concatenate(cells, axis=-1), training=training)  # (B, h/2, w/2, 4D)
        return apply_dense(self.reduction, x)


class SwinBlock(Configured, keras.layers.Layer):
    """Attention in windows, then feed-forward, each behind a norm and with a residual.

    Args:
        dim, num_heads, mlp_dim, activation, norm, dropout, drop_path, initializer: as in
            `TransformerBlock`.
        window, shift: as in `WindowAttention`.

    Returns:
        The output (B, h, w, D) as x, and the weights (B, number of windows, H, window², window²).
    """

    def __init__(
        self,
        dim,
        num_heads,
        mlp_dim,
        window=7,
        shift=0,
        activation="gelu",
        norm="layer",
        dropout=0.0,
        drop_path=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.dim, self.num_heads, self.mlp_dim = dim, num_heads, mlp_dim
        self.window, self.shift, self.activation, self.norm = window, shift, activation, norm
        self.dropout, self.drop_path, self.initializer = dropout, drop_path, initializer

        shared = {"dtype": self.dtype_policy}
        begin = shared | {"initializer": initializer}
        self.self_norm = NORM.make(norm, name="self_norm", **shared)
        self.self_attention = WindowAttention(
            dim, num_heads, window, shift, name="self_attention", **begin
        )
        self.mlp_norm = NORM.make(norm, name="mlp_norm", **shared)
        self.mlp = FeedForward(mlp_dim, activation, name="mlp", **begin)
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        self.skip = DropPath(drop_path, name="skip", **shared)

    def build(self, x_shape):
        for layer in (self.self_norm, self.self_attention, self.mlp_norm, self.mlp):
            layer.build(x_shape)

    def call(self, x, training=None):
        def drop(x):
            return self.skip(self.drop(x, training=training), training=training)

        y = self.self_norm(x, training=training)
        y, weights = self.self_attention(y, training=training)
        x = x + drop(y)
        y = self.mlp_norm(x, training=training)
        x = x + drop(self.mlp(y, training=training))
        return x, weights


class Swin(Configured, keras.Model):
    """Classifies: images (B, h, w, C) → logits (B, num_classes).

    Args:
        num_classes: of the head.
        image_size: h = w of the images it is built for; its weights suit any other size too.
        dim, mlp_dim: D and F of the first stage; each further one has twice as many.
        depth, num_heads: the blocks and H of each stage, such as (2, 2, 6, 2) and (3, 6, 12, 24).
        window: w; windows are w × w cells, shifted by w // 2 in every other block.
        patch_size: P.
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
        dim,
        depth,
        num_heads,
        mlp_dim,
        window=7,
        patch_size=4,
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
        check_positive(num_classes=num_classes, image_size=image_size, channels=channels)
        check_positive(window=window)
        check_rate(dropout=dropout, drop_path=drop_path)
        for name, sizes in (("depth", depth), ("num_heads", num_heads)):
            if not isinstance(sizes, list | tuple) or not sizes:
                raise ValueError(f"{name} must be a list with a number for each stage; got {sizes}")
            for size in sizes:
                check_positive(**{name: size})
        if len(depth) != len(num_heads):
            raise ValueError(
                "depth and num_heads must have a number for each stage; "
                f"got depth={depth}, num_heads={num_heads}"
            )
        self.num_classes, self.image_size, self.channels = num_classes, image_size, channels
        self.dim, self.depth, self.num_heads = dim, tuple(depth), tuple(num_heads)
        self.mlp_dim, self.window = mlp_dim, window
        self.patch_size, self.projection = patch_size, projection
        self.activation, self.norm, self.initializer = activation, norm, initializer
        self.dropout, self.drop_path = dropout, drop_path

        shared = {"dtype": self.dtype_policy}
        self.patches = PatchEmbedding(
            patch_size, dim, projection, initializer, name="patches", **shared
        )
        self.patch_norm = NORM.make(norm, name="patch_norm", **shared)
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        self.merges = [
            PatchMerging(norm, initializer, name=f"merge_{stage}", **shared)
            for stage in range(1, len(depth))
        ]
        self.blocks = []
        for stage, count in enumerate(depth):
            for i in range(count):
                before = len(self.blocks)
                block = SwinBlock(
                    dim * 2**stage,
                    num_heads[stage],
                    mlp_dim * 2**stage,
                    window=window,
                    shift=i % 2 * (window // 2),
                    activation=activation,
                    norm=norm,
                    dropout=dropout,
                    drop_path=drop_path * before / max(sum(depth) - 1, 1),
                    initializer=initializer,
                    name=f"block_{before}",
                    **shared,
                )
                self.blocks.append(block)
        self.last_norm = NORM.make(norm, name="last_norm", **shared)

    def grid(self, images_shape):
        """Rows and columns of the first stage's cells for images of this shape."""
        height, width = images_shape[1:3]
        if height is None or width is None:
            raise ValueError(
                f"height and width of images must be known; got images {tuple(images_shape)}"
            )
        return -(-height // self.patch_size), -(-width // self.patch_size)

    def build(self, images_shape):
        size, patch = self.image_size, self.patch_size
        rows, columns = self.grid((None, size, size, self.channels))
        self.patches.build((None, rows * patch, columns * patch, self.channels))
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
        self.head = build_dense(self, "head", shape[-1], self.num_classes)

    def stages(self):
        """The merge of each stage, None in the first, and its blocks."""
        start = 0
        for merge, count in zip((None, *self.merges), self.depth, strict=True):
            yield merge, self.blocks[start : start + count]
            start += count

    def call(self, images, training=None):
        x, _ = self.encode(images, training=training)
        return apply_dense(self.head, x)

    def encode(self, images, training=None):
        """(B, h, w, C) → what the head reads, (B, D); of each block its grid and its weights."""
        rows, columns = self.grid(images.shape)
        x = self.patches(fill_up(images, self.patch_size))
        x = ops.reshape(x, (-1, rows, columns, self.dim))  # (B, h/P, w/P, D)
        x = self.drop(self.patch_norm(x, training=training), training=training)
        seen = []
        for merge, blocks in self.stages():
            if merge is not None:
                x = merge(x, training=training)  # half as many rows and columns, D twice as wide
            for block in blocks:
                x, weights = block(x, training=training)
                seen.append((x.shape[1:3], weights))
        x = self.last_norm(x, training=training)
        return ops.mean(x, axis=(1, 2)), seen

    def attention_maps(self, images):
        """{"block_0/self": (B, H, N, N), …}, N the cells of the block's grid, row by row.

        Large: a cell sees its window alone, and all the others are zeros.
        """
        if not self.built:
            self.build(images.shape)
        _, seen = self.encode(images)
        return {
            f"block_{i}/self": block.self_attention.on_grid(weights, *grid)
            for i, (block, (grid, weights)) in enumerate(zip(self.blocks, seen, strict=True))
        }
