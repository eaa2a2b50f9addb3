"""The Vision Transformer: an image is a sentence of patches (arXiv:2010.11929).

    image → patches + positions → [class token] → block × depth → norm → pool → class logits

With a second token and a second head it is the distilled DeiT (arXiv:2012.12877); with convolutions
in place of patches and a learned weighted mean in place of the token, the compact CCT
(arXiv:2104.05704).
"""

from typing import Any

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import (
    NORM,
    POSITION,
    ClassToken,
    PatchEmbedding,
    TransformerBlock,
)
from tfx_transformer.layers.dense import apply_dense, build_dense

VARIANTS: dict[str, dict[str, Any]] = {  # table 1 of arXiv:2010.11929, of 2012.12877
    "tiny": dict(image_size=16, patch_size=4, dim=16, depth=2, num_heads=4, mlp_dim=24),
    "ti16": dict(image_size=224, patch_size=16, dim=192, depth=12, num_heads=3, mlp_dim=768),
    "s16": dict(image_size=224, patch_size=16, dim=384, depth=12, num_heads=6, mlp_dim=1536),
    "s32": dict(image_size=224, patch_size=32, dim=384, depth=12, num_heads=6, mlp_dim=1536),
    "b16": dict(image_size=224, patch_size=16, dim=768, depth=12, num_heads=12, mlp_dim=3072),
    "b32": dict(image_size=224, patch_size=32, dim=768, depth=12, num_heads=12, mlp_dim=3072),
    "l16": dict(image_size=224, patch_size=16, dim=1024, depth=24, num_heads=16, mlp_dim=4096),
    "h14": dict(image_size=224, patch_size=14, dim=1280, depth=32, num_heads=16, mlp_dim=5120),
}
VARIANTS |= {
    f"deit_{size}_distilled": VARIANTS[size] | dict(num_tokens=2) for size in ("ti16", "s16", "b16")
}
COMPACT: dict[str, Any] = dict(
    image_size=32,
    num_tokens=0,
    pool="sequence",
    attention={"kind": "multi_head", "qkv_bias": False},
)
VARIANTS |= {
    "cct_2_3x2": COMPACT | dict(conv_depth=2, dim=128, depth=2, num_heads=2, mlp_dim=128),
    "cct_7_3x1": COMPACT | dict(conv_depth=1, dim=256, depth=7, num_heads=4, mlp_dim=512),
}


class ConvTokens(Configured, keras.layers.Layer):
    """Convolutions, each with ReLU and max pooling: (B, h, w, C) → a map (B, h/2ⁿ, w/2ⁿ, D).

    Section 3.2 of arXiv:2104.05704.

    Args:
        dim: D, of the last convolution.
        depth: n; all but the last convolution have 64 channels.
    """

    def __init__(self, dim, depth=1, **kwargs):
        super().__init__(**kwargs)
        check_positive(dim=dim, depth=depth)
        self.dim, self.depth = dim, depth
        shared = {"padding": "same", "dtype": self.dtype_policy}
        plain = {"use_bias": False, "kernel_initializer": "he_normal"}
        widths = [64] * (depth - 1) + [dim]
        self.convolutions = [keras.layers.Conv2D(width, 3, **plain, **shared) for width in widths]
        self.pool = keras.layers.MaxPooling2D(3, 2, **shared)

    def build(self, images_shape):
        shape = tuple(images_shape)
        for convolution in self.convolutions:
            convolution.build(shape)
            shape = (*shape[:-1], convolution.filters)

    def call(self, images):
        x = images
        for convolution in self.convolutions:
            x = ops.relu(self.pool(convolution(x)))  # as the pool of ReLUs, with a quarter of them
        return x


class ViT(Configured, keras.Model):
    """Classifies: images (B, h, w, C) → logits (B, num_classes).

    Args:
        num_classes: of the head.
        image_size: h = w for which the positions are learned; other sizes resize them.
        dim, depth, num_heads, mlp_dim: D; blocks; H; F.
        patch_size: P; None for convolutions, with `conv_depth` of them.
        conv_depth: convolutions that make the tokens, where there are no patches.
        channels: C.
        projection: of patches, "conv" or "dense", which compute the same.
        num_tokens: class tokens: 1; 2 with a head each whose mean is the answer (distilled); or 0.
        pool: what the head reads: None is the class tokens, or "mean" if there are none. "mean" is
            that of the patches, behind the last norm; "mean_first" before it; "sequence" their
            learned weighted mean.
        position: "learned" (resizes with the image), "sincos_2d", or another name in POSITION that
            acts on tokens.
        attention, activation, norm, dropout, drop_path, layer_scale, initializer: as in
            `TransformerBlock`; dropout also falls on the embedded patches, drop_path grows with
            the depth.
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
        patch_size=None,
        conv_depth=1,
        channels=3,
        projection="conv",
        num_tokens=1,
        pool=None,
        position="learned",
        attention="multi_head",
        activation="gelu",
        norm="layer",
        dropout=0.0,
        drop_path=0.0,
        layer_scale=None,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(num_classes=num_classes, image_size=image_size, dim=dim, depth=depth)
        check_positive(channels=channels)
        check_choice(0, 1, 2, num_tokens=num_tokens)
        check_choice(None, "mean", "mean_first", "sequence", pool=pool)
        check_rate(dropout=dropout, drop_path=drop_path)
        self.num_classes, self.image_size, self.channels = num_classes, image_size, channels
        self.dim, self.depth, self.num_heads, self.mlp_dim = dim, depth, num_heads, mlp_dim
        self.patch_size, self.conv_depth, self.projection = patch_size, conv_depth, projection
        self.num_tokens, self.pool, self.position = num_tokens, pool, position
        self.attention, self.activation, self.norm = attention, activation, norm
        self.dropout, self.drop_path, self.layer_scale = dropout, drop_path, layer_scale
        self.initializer = initializer

        shared = {"dtype": self.dtype_policy}
        if patch_size is None:
            self.convolutions = ConvTokens(dim, conv_depth, name="convolutions", **shared)
        else:
            self.patches = PatchEmbedding(
                patch_size, dim, projection, initializer, name="patches", **shared
            )
        grid = self.grid((None, image_size, image_size, channels))
        if position == "learned":
            position = {"kind": "learned", "max_length": grid[0] * grid[1], "grid": grid}
        if POSITION.find(position)[0].acts_on != "tokens":
            raise ValueError(f"position={position!r} belongs inside of attention")
        self.place = POSITION.make(position, name="place", **shared)
        if num_tokens:
            self.tokens = ClassToken(num_tokens, name="tokens", **shared)
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        self.blocks = [
            TransformerBlock(
                dim,
                num_heads,
                mlp_dim,
                attention=attention,
                activation=activation,
                norm=norm,
                dropout=dropout,
                drop_path=drop_path * i / max(depth - 1, 1),
                layer_scale=layer_scale,
                initializer=initializer,
                name=f"block_{i}",
                **shared,
            )
            for i in range(depth)
        ]
        self.last_norm = NORM.make(norm, name="last_norm", **shared)

    @property
    def reads_tokens(self):
        """Whether the heads read the class tokens, one each."""
        return self.pool is None and self.num_tokens > 0

    def grid(self, images_shape):
        """Rows and columns of tokens for images of this shape."""
        if self.patch_size is not None:
            return self.patches.grid(images_shape)
        halve = 2**self.conv_depth
        return tuple(size and -(-size // halve) for size in images_shape[1:3])

    def build(self, images_shape):
        size, shape = self.image_size, (None, None, self.dim)
        images = (None, size, size, self.channels)
        tokenizer = self.convolutions if self.patch_size is None else self.patches
        tokenizer.build(images)
        for layer in (self.place, *self.blocks, self.last_norm):
            layer.build(shape)
        if self.num_tokens:
            self.tokens.build(shape)
            self.token_place = self.add_weight(
                shape=(self.num_tokens, self.dim), initializer="random_normal", name="token_place"
            )
        if self.pool == "sequence":
            self.importance = build_dense(self, "importance", self.dim, 1)
        self.heads = [
            build_dense(self, f"head_{i}", self.dim, self.num_classes)
            for i in range(self.num_tokens if self.reads_tokens else 1)
        ]

    def call(self, images, training=None):
        x, _ = self.encode(images, training=training)
        answers = [
            apply_dense(head, x[:, i : i + 1])[:, 0]  # (B, num_classes)
            for i, head in enumerate(self.heads)
        ]
        return sum(answers[1:], answers[0]) / len(answers)

    def encode(self, images, training=None):
        """(B, h, w, C) → what the heads read (B, heads, D), and the weights [(B, H, N, N)]."""
        grid = self.grid(images.shape)
        if self.patch_size is None:
            x = self.convolutions(images)
            x = ops.reshape(x, (-1, grid[0] * grid[1], self.dim))  # (B, N, D)
        else:
            x = self.patches(images)
        x = self.place(x, grid=grid)
        if self.num_tokens:
            x = self.tokens(x)  # (B, tokens + N, D)
            place = ops.pad(self.token_place, ((0, ops.shape(x)[1] - self.num_tokens), (0, 0)))
            x = x + ops.cast(place, x.dtype)
        x = self.drop(x, training=training)
        weights = []
        for block in self.blocks:
            x, seen, _ = block(x, training=training)
            weights.append(seen["self"])
        if self.pool == "mean_first":
            return self.last_norm(self.summarise(x)), weights
        return self.summarise(self.last_norm(x)), weights

    def summarise(self, x):
        """(B, tokens + N, D) → the vectors that stand for the image, (B, heads, D)."""
        if self.reads_tokens:
            return x[:, : self.num_tokens]
        x = x[:, self.num_tokens :]  # (B, N, D)
        if self.pool == "sequence":
            share = ops.softmax(apply_dense(self.importance, x), axis=1)  # (B, N, 1)
            return ops.matmul(ops.swapaxes(share, 1, 2), x)
        return ops.mean(x, axis=1, keepdims=True)

    def attention_maps(self, images):
        """{"block_0/self": (B, H, N, N), …}; class tokens come first among the N."""
        if not self.built:
            self.build(images.shape)
        _, weights = self.encode(images)
        return {f"block_{i}/self": seen for i, seen in enumerate(weights)}
