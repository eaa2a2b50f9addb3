"""BERT: an encoder that reads both ways and learns by filling in blanks (arXiv:1810.04805).

    tokens + segments + positions → norm → block × depth → a vector for each token
        → "mlm": dense → gelu → norm → what stood there, by the tokens' own table
        → pooler: dense → tanh of the first token → "classify": class logits

Blocks are post-norm. GELU is exact, as Hugging Face computes it; "gelu_tanh" is Google's code.
"""

from typing import Any

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import (
    ACTIVATION,
    NORM,
    LearnedPosition,
    TokenEmbedding,
    TransformerBlock,
)
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.masks import padding_mask

INITIALIZER = {"class_name": "TruncatedNormal", "config": {"stddev": 0.02}}
LAYER_NORM = {"kind": "layer", "epsilon": 1e-12}
VARIANTS: dict[str, dict[str, Any]] = {  # "tiny" for tests; the paper's two; arXiv:1908.08962
    "tiny": dict(dim=16, depth=2, num_heads=4, mlp_dim=24, max_length=32),
    "base": dict(dim=768, depth=12, num_heads=12, mlp_dim=3072),
    "large": dict(dim=1024, depth=24, num_heads=16, mlp_dim=4096),
    "bert_tiny": dict(dim=128, depth=2, num_heads=2, mlp_dim=512),
    "bert_mini": dict(dim=256, depth=4, num_heads=4, mlp_dim=1024),
    "bert_small": dict(dim=512, depth=4, num_heads=8, mlp_dim=2048),
    "bert_medium": dict(dim=512, depth=8, num_heads=8, mlp_dim=2048),
}


class BERT(Configured, keras.Model):
    """Reads {"tokens": (B, T), "segments": (B, T)}; id 0 is padding. What it gives says the head:

        None          {"tokens": (B, T, D), "sentence": (B, D)}, with the pooler
        "mlm"         logits (B, T, V) of what stood at each place, without a pooler; with
                      `next_sentence` {"tokens": (B, T, V), "sentence": (B, 2)}
        "classify"    logits (B, num_classes)

    Segments number the texts of a row, 0 and 1; without them all is segment 0.

    Args:
        vocab_size: V.
        dim, depth, num_heads, mlp_dim: D; blocks; H; F.
        max_length: how many positions there are.
        num_segments: of how many texts a row may consist.
        head: None, "mlm" or "classify".
        num_classes: of the head "classify".
        next_sentence: whether "mlm" also tells if the second text follows the first.
        dropout: of embedded tokens, sub-layers, attention weights and before "classify".
        attention, activation, norm, initializer: as in `TransformerBlock`.
    """

    variants = VARIANTS

    def __init__(
        self,
        vocab_size,
        dim,
        depth,
        num_heads,
        mlp_dim,
        max_length=512,
        num_segments=2,
        head=None,
        num_classes=None,
        next_sentence=False,
        attention="multi_head",
        activation="gelu",
        norm=LAYER_NORM,
        dropout=0.1,
        initializer=INITIALIZER,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, dim=dim, depth=depth, num_segments=num_segments)
        check_choice(None, "mlm", "classify", head=head)
        check_rate(dropout=dropout)
        if (head == "classify") != (num_classes is not None):
            raise ValueError(f'num_classes goes with head="classify"; got {head=}, {num_classes=}')
        if num_classes is not None:
            check_positive(num_classes=num_classes)
        if next_sentence and head != "mlm":
            raise ValueError(f'next_sentence goes with head="mlm"; got {head=}')
        self.vocab_size, self.max_length, self.num_segments = vocab_size, max_length, num_segments
        self.dim, self.depth, self.num_heads, self.mlp_dim = dim, depth, num_heads, mlp_dim
        self.head, self.num_classes, self.next_sentence = head, num_classes, next_sentence
        self.attention, self.activation, self.norm = attention, activation, norm
        self.dropout, self.initializer = dropout, initializer

        shared = {"dtype": self.dtype_policy}
        table = {"scale": False, "pad_id": None, "initializer": initializer} | shared
        self.tokens = TokenEmbedding(vocab_size, dim, name="tokens", **table)
        self.segments = TokenEmbedding(num_segments, dim, name="segments", **table)
        self.place = LearnedPosition(max_length, initializer=initializer, name="place", **shared)
        self.first_norm = NORM.make(norm, name="first_norm", **shared)
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        kind = attention if isinstance(attention, dict) else {"kind": attention}
        self.blocks = [
            TransformerBlock(
                dim,
                num_heads,
                mlp_dim,
                attention={"dropout": dropout} | kind,
                activation=activation,
                norm=norm,
                norm_first=False,
                dropout=dropout,
                initializer=initializer,
                name=f"block_{i}",
                **shared,
            )
            for i in range(depth)
        ]
        if head == "mlm":
            self.head_norm = NORM.make(norm, name="head_norm", **shared)

    def build(self, inputs_shape):
        dim, shape = self.dim, (None, None, self.dim)
        for layer in (self.tokens, self.segments):
            layer.build((None, None))
        for layer in (self.place, self.first_norm, *self.blocks):
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

    def call(self, inputs, training=None):
        x, token_mask, _ = self.encode(inputs, training=training)
        if self.head is None:
            return {"tokens": x, "sentence": self.pool(x)}
        if self.head == "classify":
            sentence = self.drop(self.pool(x), training=training)
            return apply_dense(self.head_class, sentence)  # (B, num_classes)
        logits = self.fill_in(x, token_mask, training=training)
        if not self.next_sentence:
            return logits
        return {"tokens": logits, "sentence": apply_dense(self.head_next, self.pool(x))}

    def encode(self, inputs, training=None):
        """(B, T) → the tokens' vectors (B, T, D), where they are real (B, T), and the weights
        [(B, H, T, T)] × depth."""
        tokens = inputs["tokens"]
        segments = inputs.get("segments", ops.zeros_like(tokens))
        mask = padding_mask(tokens)
        token_mask = mask[:, 0, 0]
        x = self.place(self.tokens(tokens) + self.segments(segments))
        x = self.first_norm(x, token_mask, training=training)
        x = self.drop(x, training=training)
        weights = []
        for block in self.blocks:
            x, seen, _ = block(x, attention_mask=mask, token_mask=token_mask, training=training)
            weights.append(seen["self"])
        return x, token_mask, weights

    def fill_in(self, x, token_mask=None, training=None):
        """What stood at each place: (B, T, D) → logits (B, T, V)."""
        x = ACTIVATION[self.activation](apply_dense(self.head_dense, x))
        x = self.head_norm(x, token_mask, training=training)
        return self.tokens.logits(x) + ops.cast(self.head_bias, x.dtype)

    def pool(self, x):
        """The first token's vector stands for the row: (B, T, D) → (B, D)."""
        return ops.tanh(apply_dense(self.pooler, x[:, 0]))

    def attention_maps(self, inputs):
        """{"block_0/self": (B, H, T, T), …}."""
        _, _, weights = self.encode(inputs)
        return {f"block_{i}/self": seen for i, seen in enumerate(weights)}
