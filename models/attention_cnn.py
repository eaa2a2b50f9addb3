"""Attention and convolution in one network: what was tried before the Vision Transformer.

    image → convolution → stage × n → norm → mean → class logits
    stage: halve the grid (but in the first) → block × depth → [attention over the whole grid]

Three networks by two options. Convolutions alone; attention *between* convolutions, over all cells
of the coarser grids (arXiv:1711.07971, arXiv:1805.08318); and attention *instead* of convolutions,
each cell looking at its neighbours (arXiv:1906.05909).
"""

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import NORM, FeedForward, MultiHeadAttention
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.neighbourhood_attention import NeighbourhoodAttention


class Mixer(Configured, keras.layers.Layer):
    """Mixes cells, then features, each behind a norm and with a residual: (B, h, w, D) → the same.

    Args:
        dim, num_heads, mlp_dim, norm, dropout, initializer: as in `TransformerBlock`.
        kind: "convolution" and "local" mix the cells around each other; "global" mixes all.
        window: of the first two, w × w cells.

    Returns:
        The output, and the weights of attention, (B, H, N, w²) or (B, H, N, N); None without.
    """

    def __init__(
        self,
        dim,
        num_heads,
        mlp_dim,
        kind="convolution",
        window=3,
        norm="layer",
        dropout=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice("convolution", "local", "global", kind=kind)
        check_rate(dropout=dropout)
        self.dim, self.num_heads, self.mlp_dim = dim, num_heads, mlp_dim
        self.kind, self.window, self.norm = kind, window, norm
        self.dropout, self.initializer = dropout, initializer

        shared = {"dtype": self.dtype_policy}
        begin = shared | {"initializer": initializer, "name": "mix"}
        self.mix_norm = NORM.make(norm, name="mix_norm", **shared)
        if kind == "convolution":
            self.mix = keras.layers.Conv2D(
                dim, window, padding="same", kernel_initializer=initializer, name="mix", **shared
            )
        elif kind == "local":
            self.mix = NeighbourhoodAttention(dim, num_heads, window, **begin)
        else:
            self.mix = MultiHeadAttention(dim, num_heads, **begin)
        self.mlp_norm = NORM.make(norm, name="mlp_norm", **shared)
        self.mlp = FeedForward(mlp_dim, "gelu", name="mlp", initializer=initializer, **shared)
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)

    def build(self, x_shape):
        for layer in (self.mix_norm, self.mlp_norm, self.mlp):
            layer.build(x_shape)
        self.mix.build((None, None, self.dim) if self.kind == "global" else x_shape)

    def call(self, x, training=None):
        y, weights = self.look(self.mix_norm(x, training=training), training)
        x = x + self.drop(y, training=training)
        y = self.mlp(self.mlp_norm(x, training=training), training=training)
        return x + self.drop(y, training=training), weights

    def look(self, x, training):
        if self.kind == "convolution":
            return self.mix(x), None
        if self.kind == "local":
            return self.mix(x, training=training)
        _, height, width, dim = ops.shape(x)
        y, weights, _ = self.mix(ops.reshape(x, (-1, height * width, dim)), training=training)
        return ops.reshape(y, (-1, height, width, dim)), weights


class AttentionCNN(Configured, keras.Model):
    """Classifies: images (B, h, w, C) → logits (B, num_classes).

    Args:
        num_classes: of the head.
        image_size: h = w of the images it is built for; its weights suit any other size too.
        dims: D of each stage; behind each but the last the grid is halved.
        depth: blocks in a stage.
        num_heads: H.
        mix: what mixes neighbours: "convolution" or "local" attention.
        between: whether attention over the whole grid ends each stage but the first.
        window: of neighbours, w × w.
        patch_size: of the first, non-overlapping convolution.
        channels: C.
        norm, dropout, initializer: as in `TransformerBlock`.
    """

    variants = {
        "tiny": dict(image_size=8, dims=(8, 12), depth=1, num_heads=2, window=3, patch_size=1),
        "cnn": dict(image_size=32, dims=(64, 128, 256), depth=2, num_heads=4, between=False),
        "hybrid": dict(image_size=32, dims=(64, 128, 256), depth=2, num_heads=4),
        "local": dict(
            image_size=32,
            dims=(64, 128, 256),
            depth=2,
            num_heads=4,
            mix="local",
            between=False,
            window=7,
        ),
    }

    def __init__(
        self,
        num_classes,
        image_size,
        dims,
        depth,
        num_heads,
        mix="convolution",
        between=True,
        window=3,
        patch_size=2,
        channels=3,
        norm="layer",
        dropout=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(num_classes=num_classes, image_size=image_size, depth=depth)
        check_positive(patch_size=patch_size, channels=channels)
        check_choice("convolution", "local", mix=mix)
        if not dims:
            raise ValueError(f"dims must hold the width of a stage or more; got dims={dims!r}")
        self.num_classes, self.image_size, self.dims = num_classes, image_size, tuple(dims)
        self.depth, self.num_heads, self.mix, self.between = depth, num_heads, mix, between
        self.window, self.patch_size, self.channels = window, patch_size, channels
        self.norm, self.dropout, self.initializer = norm, dropout, initializer

        shared = {"dtype": self.dtype_policy}

        def mixer(stage, kind, name):
            dim = dims[stage]
            return Mixer(
                *(dim, num_heads, 2 * dim, kind, window, norm, dropout, initializer),
                name=f"stage_{stage}_{name}",
                **shared,
            )

        self.halve = [
            keras.layers.Conv2D(
                dim,
                2 if stage else patch_size,
                strides=2 if stage else patch_size,
                padding="same",
                kernel_initializer=initializer,
                name=f"halve_{stage}",
                **shared,
            )
            for stage, dim in enumerate(dims)
        ]
        self.stages = [
            [mixer(stage, mix, f"block_{i}") for i in range(depth)]
            + ([mixer(stage, "global", "between")] if between and stage else [])
            for stage in range(len(dims))
        ]
        self.last_norm = NORM.make(norm, name="last_norm", **shared)

    def build(self, images_shape):
        shape = (None, self.image_size, self.image_size, self.channels)
        for halve, blocks in zip(self.halve, self.stages, strict=True):
            halve.build(shape)
            shape = halve.compute_output_shape(shape)
            for block in blocks:
                block.build(shape)
        self.last_norm.build(shape)
        self.head = build_dense(self, "head", shape[-1], self.num_classes)

    def call(self, images, training=None):
        return self.encode(images, training=training)[0]

    def encode(self, images, training=None):
        """The logits (B, num_classes), and the weights of each block that attends, by its name."""
        x, weights = images, {}
        for halve, blocks in zip(self.halve, self.stages, strict=True):
            x = halve(x)  # (B, h, w, D)
            for block in blocks:
                x, seen = block(x, training=training)
                if seen is not None:
                    weights[f"{block.name}/self"] = seen
        x = ops.mean(self.last_norm(x, training=training), axis=(1, 2))
        return apply_dense(self.head, x[:, None])[:, 0], weights

    def attention_maps(self, images):
        """{"stage_1_between/self": (B, H, N, N), …}; of neighbours (B, H, N, w²)."""
        if not self.built:
            self.build(images.shape)
        return self.encode(images)[1]
