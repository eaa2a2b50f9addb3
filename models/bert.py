"""BERT: a Transformer encoder pretrained by masked language modeling (arXiv:1810.04805).

    tokens + segments + positions → norm → block × depth → a vector for each token
        → "mlm": dense → gelu → norm → logits of the masked token, by the token embedding table
        → pooler: dense → tanh of the first token → "classify": class logits

Blocks are post-norm. GELU is exact, as in Hugging Face; "gelu_tanh" is Google's approximation.
"""

from typing import Any, Literal

from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.layers import (
    ACTIVATION,
    NORM,
    LearnedPosition,
    TokenEmbedding,
    TransformerBlock,
)
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.layers.masks import padding_mask
from tfx_transformer.models.base import BaseModel, Published, run_blocks

INITIALIZER = {"class_name": "TruncatedNormal", "config": {"stddev": 0.02}}
LAYER_NORM = {"kind": "layer", "epsilon": 1e-12}
VARIANTS: dict[str, dict[str, Any]] = {  # the paper's two; tiny to medium are of arXiv:1908.08962
    "test": dict(dim=16, depth=2, num_heads=4, mlp_dim=24, max_length=32),
    "tiny": dict(dim=128, depth=2, num_heads=2, mlp_dim=512),
    "mini": dict(dim=256, depth=4, num_heads=4, mlp_dim=1024),
    "small": dict(dim=512, depth=4, num_heads=8, mlp_dim=2048),
    "medium": dict(dim=512, depth=8, num_heads=8, mlp_dim=2048),
    "base": dict(dim=768, depth=12, num_heads=12, mlp_dim=3072),
    "large": dict(dim=1024, depth=24, num_heads=16, mlp_dim=4096),
}


class BERT(BaseModel):
    """Text encoder: {"tokens": (B, T), "segments": (B, T)} → outputs that depend on `head`:

        None          {"tokens": (B, T, D), "sentence": (B, D)}, with the pooler
        "mlm"         logits (B, T, V) of the token at each position, without a pooler; with
                      `next_sentence` {"tokens": (B, T, V), "sentence": (B, 2)}
        "classify"    logits (B, num_classes)

    Token id 0 is padding. Segments number the texts of a row, 0 and 1; without them all are 0.

    Args:
        vocab_size: size V of the vocabulary.
        dim: width D of the tokens.
        depth: number of blocks.
        num_heads: attention heads of a block; divides `dim`.
        mlp_dim: width of the feed-forward layers.
        max_length: largest number of tokens.
        num_segments: largest number of texts in a row.
        head: output layer: None, "mlm" for masked tokens, or "classify".
        num_classes: number of classes of the head "classify".
        next_sentence: whether "mlm" also predicts if the second text follows the first.
        attention: a name in ATTENTION, or a dict of its options.
        activation: activation of the feed-forward layers and of the head "mlm".
        norm: a name in NORM, or a dict of its options.
        dropout: dropout rate of embeddings, of each block's layers, of attention scores, and of
            the input of "classify".
        initializer: Keras initializer of the kernels and embedding tables.
    """

    published = Published(
        "1810.04805, 1908.08962",
        {"vocab_size": 30_522},
        {
            "tiny": 4_385_920,
            "mini": 11_170_560,
            "small": 28_763_648,
            "medium": 41_373_184,
            "base": 109_482_240,
            "large": 335_141_888,
        },
    )
    variants = VARIANTS

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        depth: int,
        num_heads: int,
        mlp_dim: int,
        max_length: int = 512,
        num_segments: int = 2,
        head: Literal["mlm", "classify"] | None = None,
        num_classes: int | None = None,
        next_sentence: bool = False,
        attention: str | dict[str, Any] = "multi_head",
        activation: str = "gelu",
        norm: str | dict[str, Any] = LAYER_NORM,
        dropout: float = 0.1,
        initializer: str | dict[str, Any] = INITIALIZER,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(num_segments=num_segments)
        check_choice(None, "mlm", "classify", head=head)
        if (head == "classify") != (num_classes is not None):
            raise ValueError(
                f'num_classes is for head="classify", and needed there; got {head=}, {num_classes=}'
            )
        if num_classes is not None:
            check_positive(num_classes=num_classes)
        if next_sentence and head != "mlm":
            raise ValueError(f'next_sentence needs head="mlm"; got {head=}')

        table = {"scale": False, "pad_id": None}
        self.tokens = self.make(TokenEmbedding, name="tokens", **table)
        self.segments = self.make(TokenEmbedding, vocab_size=num_segments, name="segments", **table)
        self.position_embedding = self.make(LearnedPosition, name="position_embedding")
        self.first_norm = NORM.make(norm, name="first_norm", dtype=self.dtype_policy)
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        kind = attention if isinstance(attention, dict) else {"kind": attention}
        attention = {"dropout": dropout} | kind
        self.blocks = self.make_blocks(
            TransformerBlock, depth, attention=attention, norm_first=False
        )
        if head == "mlm":
            self.head_norm = NORM.make(norm, name="head_norm", dtype=self.dtype_policy)

    def input_shapes(self):
        return {"tokens": (None, None), "segments": (None, None)}

    def build_layers(self):
        dim, shape = self.dim, (None, None, self.dim)
        for layer in (self.tokens, self.segments):
            layer.build((None, None))
        for layer in (self.position_embedding, self.first_norm, *self.blocks):
            layer.build(shape)
        if self.head == "mlm":
            self.head_dense = build_dense(self, "head_dense", dim, dim)
            self.head_norm.build(shape)
            self.head_bias = self.add_weight(
                shape=(self.vocab_size,), initializer="zeros", name="head_bias"
            )
        if self.head != "mlm" or self.next_sentence:
            self.pooler = build_dense(self, "pooler", dim, dim)
        if self.next_sentence:
            self.head_next = build_dense(self, "head_next", dim, 2)
        if self.head == "classify":
            self.head_class = build_dense(self, "head_class", dim, self.num_classes)

    def layer_groups(self):
        embeddings = [self.tokens, self.segments, self.position_embedding, self.first_norm]
        return [embeddings, *([block] for block in self.blocks)]

    def call(self, inputs, training=None):
        x, token_mask, _ = self.encode(inputs, training=training)
        if self.head is None:
            return {"tokens": x, "sentence": self.pool_tokens(x)}
        if self.head == "classify":
            sentence = self.drop(self.pool_tokens(x), training=training)
            return apply_dense(self.head_class, sentence)  # (B, num_classes)
        logits = self.token_logits(x, token_mask, training=training)
        if not self.next_sentence:
            return logits
        return {"tokens": logits, "sentence": apply_dense(self.head_next, self.pool_tokens(x))}

    def encode(self, inputs, training=None):
        """Tokens (B, T) → vectors (B, T, D), padding mask (B, T), attention maps."""
        tokens = inputs["tokens"]
        segments = inputs.get("segments", ops.zeros_like(tokens))
        mask = padding_mask(tokens)
        token_mask = mask[:, 0, 0]
        x = self.position_embedding(self.tokens(tokens) + self.segments(segments))
        x = self.first_norm(x, token_mask, training=training)
        x = self.drop(x, training=training)
        (*_, x), maps, _ = run_blocks(
            self.blocks, x, attention_mask=mask, token_mask=token_mask, training=training
        )
        return x, token_mask, maps

    def token_logits(self, x, token_mask=None, training=None):
        """The head "mlm": (B, T, D) → logits (B, T, V)."""
        x = ACTIVATION[self.activation](apply_dense(self.head_dense, x))
        x = self.head_norm(x, token_mask, training=training)
        return self.tokens.logits(x) + ops.cast(self.head_bias, x.dtype)

    def pool_tokens(self, x):
        """The pooler, on the first token: (B, T, D) → (B, D)."""
        return ops.tanh(apply_dense(self.pooler, x[:, 0]))

    def attention_maps(self, inputs):
        """{"block_0/self": (B, H, T, T), …}."""
        return self.encode(inputs)[2]
