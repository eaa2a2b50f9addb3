"""Embeddings of tokens and image patches, and class tokens."""

import math

import keras
from keras import ops

from tfx_transformer.backend import gather, matmul_transposed
from tfx_transformer.checks import check_positive
from tfx_transformer.config import Serializable


class TokenEmbedding(Serializable, keras.layers.Layer):
    """Token embedding: ids (B, T) → (B, T, D); `logits` is the tied output layer.

    Args:
        vocab_size: V.
        dim: D.
        scale: whether to multiply by √D (section 3.4 of arXiv:1706.03762): the table starts small
            for the output layer, but should not be small beside the positions.
        pad_id: the id whose vector is zero; None if there is no padding.
        initializer: of the table; None is a normal with deviation 1/√D.
    """

    def __init__(self, vocab_size, dim, scale=True, pad_id=0, initializer=None, **kwargs):
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, dim=dim)
        if pad_id is not None and not 0 <= pad_id < vocab_size:
            raise ValueError(f"pad_id must be below vocab_size={vocab_size}; got pad_id={pad_id}")

    def build(self, ids_shape):
        default = keras.initializers.RandomNormal(stddev=1 / math.sqrt(self.dim))
        self.table = self.add_weight(
            shape=(self.vocab_size, self.dim), initializer=self.initializer or default, name="table"
        )

    def call(self, ids):
        ids = ops.cast(ids, "int32")  # several replicas: Keras first traces a model on floats
        x = gather(self.table, ids)
        factor = math.sqrt(self.dim) if self.scale else 1.0
        if self.pad_id is not None:
            factor = ops.where(ops.equal(ids, self.pad_id), 0.0, factor)[..., None]
            return x * ops.cast(factor, x.dtype)
        return x * factor if self.scale else x

    def logits(self, x, transposed=None):
        """The tied output layer, xEᵀ: (B, T, D) → (B, T, V).

        Args:
            x: (B, T, D).
            transposed: Eᵀ from `transpose`, for many calls with few rows.
        """
        rows = ops.reshape(x, (-1, self.dim))
        if transposed is None:
            y = matmul_transposed(rows, ops.cast(self.table, x.dtype))
        else:
            y = ops.matmul(rows, transposed)
        return ops.reshape(y, (-1, *ops.shape(x)[1:-1], self.vocab_size))

    def transpose(self):
        """Eᵀ (D, V), to be computed once for many calls of `logits`."""
        return ops.transpose(ops.cast(self.table, self.compute_dtype))


class PatchEmbedding(Serializable, keras.layers.Layer):
    """Patch embedding: splits an image into patches and projects each (arXiv:2010.11929).

    (B, height, width, C) → (B, N, D), row by row, N = height/P · width/P.

    Args:
        patch_size: P; divides height and width.
        dim: D.
        initializer: of the kernel (P, P, C, D).
    """

    def __init__(self, patch_size, dim, initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        check_positive(patch_size=patch_size, dim=dim)

    def build(self, images_shape):
        self.grid(images_shape)
        size = self.patch_size
        self.kernel = self.add_weight(
            shape=(size, size, images_shape[-1], self.dim),
            initializer=self.initializer,
            name="kernel",
        )
        self.bias = self.add_weight(shape=(self.dim,), initializer="zeros", name="bias")

    def grid(self, images_shape):
        """(height/P, width/P) for images of this shape."""
        height, width = images_shape[1:3]
        for name, pixels in (("height", height), ("width", width)):
            if pixels is not None and pixels % self.patch_size:
                raise ValueError(
                    f"patch_size must divide the image's {name}; "
                    f"got patch_size={self.patch_size}, {name}={pixels}"
                )
        return height and height // self.patch_size, width and width // self.patch_size

    def call(self, images):
        _, height, width, channels = ops.shape(images)
        size = self.patch_size
        rows, columns = height // size, width // size
        x = ops.reshape(images, (-1, rows, size, columns, size * channels))
        x = ops.transpose(x, (0, 1, 3, 2, 4))  # (B, rows, columns, P, P·C)
        x = ops.reshape(x, (-1, size * size * channels))  # (B·N, P·P·C)
        x = ops.matmul(x, ops.reshape(self.kernel, (-1, self.dim)))  # faster than a convolution
        return ops.add(ops.reshape(x, (-1, rows * columns, self.dim)), self.bias)


class ClassToken(Serializable, keras.layers.Layer):
    """Prepends learned class tokens: (B, N, D) → (B, num_tokens + N, D).

    Args:
        num_tokens: 1 in ViT, 2 in a distilled DeiT (arXiv:2012.12877).
        initializer: of the tokens.
    """

    def __init__(self, num_tokens=1, initializer="zeros", **kwargs):
        super().__init__(**kwargs)
        check_positive(num_tokens=num_tokens)

    def build(self, x_shape):
        self.tokens = self.add_weight(
            shape=(self.num_tokens, x_shape[-1]), initializer=self.initializer, name="tokens"
        )

    def call(self, x):
        shape = (ops.shape(x)[0], self.num_tokens, x.shape[-1])
        return ops.concatenate([ops.broadcast_to(self.tokens, shape), x], axis=1)
