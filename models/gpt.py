"""GPT-2: a decoder-only Transformer language model.

    tokens + positions → block × depth (causal attention) → norm → logits of the next token

As in "Language Models are Unsupervised Multitask Learners" (Radford et al. 2019): pre-norm, GELU by
tanh, one table for input and output. Unlike there, the last projections of residual branches are
initialized like all others, not scaled by 1/√(2·depth).
"""

from typing import Any

from keras import ops

from tfx_transformer.layers import NORM, LearnedPosition, TokenEmbedding, TransformerBlock
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.layers.masks import causal_mask
from tfx_transformer.models.base import CausalModel, Published, run_blocks

INITIALIZER = {"class_name": "RandomNormal", "config": {"stddev": 0.02}}
LAYER_NORM = {"kind": "layer", "epsilon": 1e-5}


class GPT(CausalModel):
    """Language model: tokens (B, T) → logits (B, T, V) of the next token at each position.

    Attention is causal, so padding on the right needs no mask and may have any id. To generate,
    pass `step` and the prompt, as `prefix`, to a decoder of `tfx_transformer.decoding`:

        state = model.initial_state(prompt, max_length)
        decoder(model.step, state, batch_size, max_length, START, END, PAD, prefix=prompt)

    In OpenAI's vocabulary one token, 50256, is START, END and PAD.

    Args:
        vocab_size: size V of the vocabulary.
        dim: width D of the tokens.
        depth: number of blocks.
        num_heads: attention heads of a block; divides `dim`.
        mlp_dim: width of the feed-forward layers.
        max_length: largest number of tokens.
        attention: a name in ATTENTION, or a dict of its options.
        activation: activation of the feed-forward layers.
        norm: a name in NORM, or a dict of its options.
        dropout: dropout rate of embeddings, of each block's layers and of attention scores.
        initializer: Keras initializer of the kernels and embedding tables.
    """

    published = Published(
        "GPT-2, 2019",
        {"vocab_size": 50_257},
        {"small": 124_439_808, "medium": 354_823_168, "large": 774_030_080, "xl": 1_557_611_200},
    )
    variants = {  # table 2 of the paper; "test" is for tests
        "test": dict(dim=16, depth=2, num_heads=4, mlp_dim=24, max_length=32),
        "small": dict(dim=768, depth=12, num_heads=12, mlp_dim=3072),
        "medium": dict(dim=1024, depth=24, num_heads=16, mlp_dim=4096),
        "large": dict(dim=1280, depth=36, num_heads=20, mlp_dim=5120),
        "xl": dict(dim=1600, depth=48, num_heads=25, mlp_dim=6400),
    }

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        depth: int,
        num_heads: int,
        mlp_dim: int,
        max_length: int = 1024,
        attention: str | dict[str, Any] = "multi_head",
        activation: str = "gelu_tanh",
        norm: str | dict[str, Any] = LAYER_NORM,
        dropout: float = 0.1,
        initializer: str | dict[str, Any] = INITIALIZER,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.tokens = self.make(TokenEmbedding, scale=False, pad_id=None, name="tokens")
        self.position_embedding = self.make(LearnedPosition, name="position_embedding")
        self.drop = Dropout(dropout, name="drop", dtype=self.dtype_policy)
        kind = attention if isinstance(attention, dict) else {"kind": attention}
        attention = {"dropout": dropout} | kind
        self.blocks = self.make_blocks(TransformerBlock, depth, attention=attention)
        self.last_norm = NORM.make(norm, name="last_norm", dtype=self.dtype_policy)

    def build_layers(self):
        self.tokens.build((None, None))
        for layer in (self.position_embedding, *self.blocks, self.last_norm):
            layer.build((None, None, self.dim))

    def layer_groups(self):
        return [[self.tokens, self.position_embedding], *([block] for block in self.blocks)]

    def decode(self, tokens, caches=None, index=0, transposed=None, training=None):
        """(B, T) at positions index … → logits (B, T, V), attention maps, new caches."""
        x = self.position_embedding(self.tokens(tokens), start=index)
        x = self.drop(x, training=training)
        length = ops.shape(tokens)[1]
        causal = None if caches else causal_mask(length, length)
        (*_, x), maps, caches = run_blocks(
            self.blocks, x, None, caches, attention_mask=causal, index=index, training=training
        )
        x = self.last_norm(x, training=training)
        return self.tokens.logits(x, transposed), maps, caches
