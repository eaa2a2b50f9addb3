"""Vision Transformer (ViT): a Transformer encoder over image patches (arXiv:2010.11929).

    image → patches + positions → [class token] → block × depth → norm → pool → class logits

With two class tokens and two heads it is the distilled DeiT (arXiv:2012.12877); with convolutions
instead of patches and attention pooling instead of a class token, the compact CCT
(arXiv:2104.05704).
"""

from typing import Any, Literal

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.config import Serializable
from tfx_transformer.layers import NORM, POSITION, ClassToken, PatchEmbedding, TransformerBlock
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.models.base import ImageModel, Published, check_images, run_blocks

VARIANTS: dict[str, dict[str, Any]] = {  # table 1 of 2010.11929 and of 2012.12877
    "test": dict(image_size=16, patch_size=4, dim=16, depth=2, num_heads=4, mlp_dim=24),
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


class ConvTokens(Serializable, keras.layers.Layer):
    """Convolutions, each with ReLU and max pooling: (B, h, w, C) → (B, h/2ⁿ, w/2ⁿ, D).

    Section 3.2 of arXiv:2104.05704.

    Args:
        dim: D, channels of the last convolution.
        depth: n; all but the last convolution have 64 channels.
    """

    def __init__(self, dim, depth=1, **kwargs):
        super().__init__(**kwargs)
        check_positive(dim=dim, depth=depth)
        shared = {"padding": "same", "dtype": self.dtype_policy}
        options = {"use_bias": False, "kernel_initializer": "he_normal"} | shared
        widths = [64] * (depth - 1) + [dim]
        self.convolutions = [keras.layers.Conv2D(width, 3, **options) for width in widths]
        self.pool = keras.layers.MaxPooling2D(3, 2, **shared)

    def build(self, images_shape):
        shape = tuple(images_shape)
        for convolution in self.convolutions:
            convolution.build(shape)
            shape = (*shape[:-1], convolution.filters)

    def call(self, images):
        x = images
        for convolution in self.convolutions:
            x = ops.relu(self.pool(convolution(x)))  # equal to pooling after ReLU, but cheaper
        return x


class ViT(ImageModel):
    """Image classifier: images (B, h, w, C) → logits (B, num_classes).

    Pixels are floats, normalized by mean and deviation; normalization "half" is -1 to 1.

    Args:
        num_classes: number of classes; 0 returns features (B, D) instead of logits.
        image_size: height and width of the images. Learned positions are resized for other sizes.
        dim: width D of the tokens.
        depth: number of blocks.
        num_heads: attention heads of a block; divides `dim`.
        mlp_dim: width of the feed-forward layers.
        patch_size: height and width of a patch; None embeds images by convolutions instead.
        conv_depth: number of convolutions, if `patch_size` is None.
        channels: color channels of the images.
        num_tokens: class tokens: 0, 1, or 2 for a distilled model, with the mean of two heads.
        pool: input of the head: None is the class token, or the mean if there is none; "mean" of
            the patches after the last norm; "mean_first" before it; "sequence" is their learned
            weighted mean.
        position: position embedding: "learned", "sincos_2d", or a name in POSITION that acts on
            tokens, or a dict of its options.
        attention: a name in ATTENTION, or a dict of its options.
        activation: activation of the feed-forward layers.
        norm: a name in NORM, or a dict of its options.
        dropout: dropout rate of embedded patches and of each block's layers.
        drop_path: rate at which the last block is skipped; it grows linearly over the blocks.
        layer_scale: initial value of a learned factor on each block's layers; None for no factor.
        initializer: Keras initializer of the kernels.
    """

    published = Published(
        "2010.11929, 2012.12877, 2104.05704",
        {"num_classes": 1000},
        {
            "ti16": 5_717_416,
            "s16": 22_050_664,
            "s32": 22_878_952,
            "b16": 86_567_656,
            "b32": 88_224_232,
            "l16": 304_326_632,
            "h14": 632_045_800,
            "deit_ti16_distilled": 5_910_800,
            "deit_s16_distilled": 22_436_432,
            "deit_b16_distilled": 87_338_192,
            "cct_2_3x2": 283_723,
            "cct_7_3x1": 3_760_139,
        },
        {name: {"num_classes": 10} for name in ("cct_2_3x2", "cct_7_3x1")},
    )
    variants = VARIANTS

    def __init__(
        self,
        num_classes: int,
        image_size: int,
        dim: int,
        depth: int,
        num_heads: int,
        mlp_dim: int,
        patch_size: int | None = None,
        conv_depth: int = 1,
        channels: int = 3,
        num_tokens: int = 1,
        pool: Literal["mean", "mean_first", "sequence"] | None = None,
        position: str | dict[str, Any] = "learned",
        attention: str | dict[str, Any] = "multi_head",
        activation: str = "gelu",
        norm: str | dict[str, Any] = "layer",
        dropout: float = 0.0,
        drop_path: float = 0.0,
        layer_scale: float | None = None,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice(0, 1, 2, num_tokens=num_tokens)
        check_choice(None, "mean", "mean_first", "sequence", pool=pool)

        if patch_size is None:
            self.convolutions = self.make(ConvTokens, depth=conv_depth, name="convolutions")
        else:
            self.patches = self.make(PatchEmbedding, name="patches")
        grid = self.grid(self.input_shapes())
        if position == "learned":
            position = {"kind": "learned", "max_length": grid[0] * grid[1], "grid": grid}
        if POSITION.find(position)[0].acts_on != "tokens":
            raise ValueError(
                f"position={position!r} acts inside attention: "
                f'set attention={{"kind": "multi_head", "position": {position!r}}}'
            )
        shared = {"dtype": self.dtype_policy}
        self.position_embedding = POSITION.make(position, name="position_embedding", **shared)
        if num_tokens:
            self.tokens = ClassToken(num_tokens, name="tokens", **shared)
        self.drop = Dropout(dropout, name="drop", **shared)
        self.blocks = self.make_blocks(TransformerBlock, depth)
        self.last_norm = NORM.make(norm, name="last_norm", **shared)

    @property
    def pools_class_tokens(self):
        """Whether the heads read the class tokens, one each."""
        return self.pool is None and self.num_tokens > 0

    @property
    def patch_embedding(self):
        return self.convolutions if self.patch_size is None else self.patches

    def grid(self, images_shape):
        """Rows and columns of tokens for images of this shape."""
        if self.patch_size is not None:
            return self.patches.grid(images_shape)
        stride = 2**self.conv_depth
        return tuple(size and -(-size // stride) for size in images_shape[1:3])

    def build_layers(self):
        shape = (None, None, self.dim)
        self.patch_embedding.build(self.input_shapes())
        for layer in (self.position_embedding, *self.blocks, self.last_norm):
            layer.build(shape)
        if self.num_tokens:
            self.tokens.build(shape)
            self.token_position = self.add_weight(
                shape=(self.num_tokens, self.dim),
                initializer="random_normal",
                name="token_position",
            )
        if self.pool == "sequence":
            self.importance = build_dense(self, "importance", self.dim, 1)
        count = self.num_tokens if self.pools_class_tokens else 1
        self.heads = [
            build_dense(self, f"head_{i}", self.dim, self.num_classes)
            for i in range(count if self.num_classes else 0)
        ]

    def layer_groups(self):
        tokens = [self.tokens, self.token_position] if self.num_tokens else []
        embeddings = [self.patch_embedding, self.position_embedding, *tokens]
        return [embeddings, *([block] for block in self.blocks)]

    def call(self, images, training=None):
        x, _ = self.encode(images, training=training)  # (B, heads, D)
        if not self.num_classes:
            return ops.mean(x, axis=1)
        logits = [apply_dense(head, x[:, i]) for i, head in enumerate(self.heads)]
        return sum(logits[1:], logits[0]) / len(logits)

    def encode(self, images, training=None):
        """(B, h, w, C) → inputs of the heads (B, heads, D), attention maps."""
        x, maps = self.encode_tokens(images, training=training)
        if self.pool == "mean_first":
            return self.last_norm(self.pool_tokens(x)), maps
        return self.pool_tokens(self.last_norm(x)), maps

    def encode_tokens(self, images, training=None):
        """(B, h, w, C) → tokens (B, num_tokens + N, D) before the last norm, and attention maps."""
        check_images(images, self.channels)
        grid = self.grid(images.shape)
        x = self.patch_embedding(images)
        if self.patch_size is None:
            x = ops.reshape(x, (-1, grid[0] * grid[1], self.dim))  # (B, N, D)
        x = self.position_embedding(x, grid=grid)
        if self.num_tokens:
            x = self.tokens(x)  # (B, tokens + N, D)
            padding = ((0, ops.shape(x)[1] - self.num_tokens), (0, 0))
            x = x + ops.cast(ops.pad(self.token_position, padding), x.dtype)
        x = self.drop(x, training=training)
        (*_, x), maps, _ = run_blocks(self.blocks, x, training=training)
        return x, maps

    def pool_tokens(self, x):
        """(B, num_tokens + N, D) → inputs of the heads, (B, heads, D)."""
        if self.pools_class_tokens:
            return x[:, : self.num_tokens]
        x = x[:, self.num_tokens :]  # (B, N, D)
        if self.pool == "sequence":
            weights = ops.softmax(apply_dense(self.importance, x), axis=1)  # (B, N, 1)
            return ops.matmul(ops.swapaxes(weights, 1, 2), x)
        return ops.mean(x, axis=1, keepdims=True)
