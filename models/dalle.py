"""DALL·E: a decoder-only Transformer over the tokens of a text and of an image (arXiv:2102.12092).

    START, text tokens, image tokens → block × depth (causal, sparse attention) → next token

The image tokens, row by row, are those of a `DiscreteVAE`. As in section 2.2 and appendix B: a text
shorter than its T positions ends with padding tokens, one for each position; text positions, rows
and columns are embedded; an image token attends to the whole text and, by kind of block, to the
tokens back to the one above it (row), to those of its column, or to an area around it
(convolution). Unlike there, one table is for input and output, and the sparse masks save no time.
"""

from typing import Any, Literal

import numpy as np
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.layers import NORM, TokenEmbedding, TransformerBlock
from tfx_transformer.layers.attention.base import GrowingCache
from tfx_transformer.layers.attention.dot_product import LOW
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.models.base import CausalModel, Published, run_blocks
from tfx_transformer.models.gpt import INITIALIZER, LAYER_NORM

KERNEL = 11  # height and width of the area of the last block


class DALLE(CausalModel):
    """Text-to-image model: tokens (B, L) → logits (B, L, V) of the next token at each position.

    The V tokens are `vocab_size` of texts, `text_length` of padding and `codebook_size` of images,
    in this order. The tokens of an input are START, the text with its padding, then the image;
    logits of tokens that cannot follow, text after text positions, are very low. `prompt` makes
    the tokens of a text, which are the prefix for a decoder of `tfx_transformer.decoding`.

    Args:
        vocab_size: size of the text vocabulary.
        text_length: number T of text positions, without START.
        codebook_size: size of the image vocabulary.
        grid: rows and columns of the image tokens.
        dim: width D of the tokens.
        depth: number of blocks.
        num_heads: attention heads of a block; divides `dim`.
        mlp_dim: width of the feed-forward layers.
        masks: "sparse", by block as in the paper, or "full" for causal attention to all tokens.
        attention: a name in ATTENTION, or a dict of its options.
        activation: activation of the feed-forward layers.
        norm: a name in NORM, or a dict of its options.
        dropout: dropout rate of embeddings, of each block's layers and of attention scores.
        initializer: Keras initializer of the kernels and embedding tables.
    """

    published = Published("2102.12092", {"vocab_size": 16_384}, {"paper": 12_195_294_848})
    variants = {
        "test": dict(
            text_length=2, codebook_size=7, grid=(2, 3), dim=16, depth=2, num_heads=4, mlp_dim=24
        ),
        "small": dict(
            text_length=16, codebook_size=128, grid=(8, 8), dim=128, depth=4, num_heads=4,
            mlp_dim=512,
        ),
        "paper": dict(
            text_length=256, codebook_size=8192, grid=(32, 32), dim=3968, depth=64, num_heads=62,
            mlp_dim=15872,
        ),
    }  # fmt: skip

    def __init__(
        self,
        vocab_size: int,
        text_length: int,
        codebook_size: int,
        grid: tuple[int, int],
        dim: int,
        depth: int,
        num_heads: int,
        mlp_dim: int,
        masks: Literal["sparse", "full"] = "sparse",
        attention: str | dict[str, Any] = "multi_head",
        activation: str = "gelu_tanh",
        norm: str | dict[str, Any] = LAYER_NORM,
        dropout: float = 0.1,
        initializer: str | dict[str, Any] = INITIALIZER,
        **kwargs,
    ):
        super().__init__(**kwargs)
        rows, columns = grid
        check_positive(text_length=text_length, codebook_size=codebook_size)
        check_positive(rows=rows, columns=columns)
        self.num_tokens = vocab_size + text_length + codebook_size  # V
        self.max_length = 1 + text_length + rows * columns
        options = {"vocab_size": self.num_tokens, "scale": False, "pad_id": None}
        self.tokens = self.make(TokenEmbedding, name="tokens", **options)
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        kind = attention if isinstance(attention, dict) else {"kind": attention}
        attention = {"dropout": dropout} | kind
        self.blocks = self.make_blocks(TransformerBlock, depth, attention=attention)
        self.last_norm = NORM.make(norm, name="last_norm", dtype=self.dtype_policy)
        kinds = block_kinds(depth) if masks == "sparse" else ["full"] * depth
        made = {kind: attention_mask(kind, 1 + text_length, rows, columns) for kind in {*kinds}}
        self.block_masks = [made[kind] for kind in kinds]

    def build_layers(self):
        self.tokens.build((None, None))
        rows, columns = self.grid
        sizes = {"text": 1 + self.text_length, "row": rows, "column": columns}
        self.positions = {
            name: self.add_weight(
                shape=(size, self.dim), initializer=self.initializer, name=f"{name}_embedding"
            )
            for name, size in sizes.items()
        }
        for layer in (*self.blocks, self.last_norm):
            layer.build((None, None, self.dim))

    def layer_groups(self):
        return [[self.tokens, *self.positions.values()], *([block] for block in self.blocks)]

    def prompt(self, ids):
        """Text ids (B, T), padded with 0 → text tokens (B, T) with those of padding."""
        padding = self.vocab_size + ops.arange(self.text_length, dtype="int32")
        return ops.where(ops.not_equal(ids, 0), ops.cast(ids, "int32"), padding)

    @property
    def first_image_token(self) -> int:
        return self.vocab_size + self.text_length

    def decode(self, tokens, caches=None, index=0, transposed=None, training=None):
        """(B, T) at positions index … → logits (B, T, V), attention maps, new caches."""
        length = ops.shape(tokens)[1]
        position = ops.slice(self.position_table(), (index, 0), (length, self.dim))
        x = self.tokens(tokens)
        x = self.drop(x + ops.cast(position, x.dtype), training=training)
        size = ops.shape(caches[0][0])[2] if caches else length  # of the keys
        size += length if caches and isinstance(caches[0], GrowingCache) else 0
        masks = [slice_mask(mask, index, length, size) for mask in self.block_masks]
        (*_, x), maps, caches = run_blocks(
            self.blocks, x, None, caches, masks, index=index, training=training
        )
        x = self.last_norm(x, training=training)
        return self.forbid(self.tokens.logits(x, transposed), index), maps, caches

    def position_table(self):
        """The embeddings of all positions (max_length, D): of the text, then row plus column."""
        text, row, column = (ops.convert_to_tensor(x) for x in self.positions.values())
        image = ops.reshape(row[:, None] + column, (-1, self.dim))
        return ops.concatenate([text, image], axis=0)

    def forbid(self, logits, index):
        """Low logits for text tokens where the next token is of the image, and vice versa."""
        is_image = index + ops.arange(ops.shape(logits)[1]) >= self.text_length  # (T,)
        is_image_token = ops.arange(self.num_tokens) >= self.first_image_token  # (V,)
        allowed = is_image[:, None] == is_image_token
        return ops.where(allowed, logits, ops.cast(max(LOW, -6e4), logits.dtype))

    def attention_maps(self, tokens):
        """{"block_0/self": (B, H, T, T), …}; which positions are words: 1 … `text_length`."""
        return super().attention_maps(tokens)


def block_kinds(depth: int) -> list[str]:
    """The kind of each block: row, column, row, row, …, the last one convolution."""
    kinds = ["column" if i % 4 == 1 else "row" for i in range(depth)]
    return [*kinds[:-1], "convolution"]


def attention_mask(kind: str, text_length: int, rows: int, columns: int) -> np.ndarray:
    """Which positions (L, L), True = may attend, attend to which in a kind of block.

    Text positions come first, START included, then those of the image. As in figure 11 of the
    paper: rows and areas continue at the opposite side of the image.
    """
    length = text_length + rows * columns
    causal = np.tri(length, dtype=bool)
    if kind == "full":
        return causal
    cell = np.arange(rows * columns)
    back = cell[:, None] - cell  # how many cells the key is before the query
    half = KERNEL // 2
    area = np.arange(half + 1)[:, None] * columns + np.arange(-half, half + 1)
    image = {
        "row": back <= columns,
        "column": back % columns == 0,
        "convolution": np.isin(back, area),
    }[kind]
    mask = causal.copy()
    mask[text_length:, text_length:] &= image
    return mask


def slice_mask(mask: np.ndarray, index, length, size):
    """The rows of a mask (L, L) of queries at index …, and `size` keys: (1, 1, T, size)."""
    total = len(mask)
    keys = ops.minimum(ops.arange(size), total - 1)  # a longer cache has no tokens there
    rows = ops.slice(ops.convert_to_tensor(mask), (index, 0), (length, total))
    return ops.take(rows, keys, axis=1)[None, None]
