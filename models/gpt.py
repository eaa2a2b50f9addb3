"""GPT-2: a decoder alone, which goes on from what stands there.

    tokens + positions → block × depth (each sees the past only) → norm → logits of the next token

As in "Language Models are Unsupervised Multitask Learners" (Radford et al. 2019): pre-norm, GELU by
tanh, and one table for input and output. Unlike there, the projections that end a residual begin
as all others do, not smaller by √(2·depth).
"""

import keras
from keras import ops

from tfx_transformer.checks import check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import NORM, LearnedPosition, TokenEmbedding, TransformerBlock
from tfx_transformer.layers.masks import causal_mask

INITIALIZER = {"class_name": "RandomNormal", "config": {"stddev": 0.02}}
LAYER_NORM = {"kind": "layer", "epsilon": 1e-5}


class GPT(Configured, keras.Model):
    """Continues: tokens (B, T) → logits (B, T, V).

    Position t of the logits says what follows tokens 0 … t. As no token sees what is behind it,
    padding on the right needs no mask, and any id may stand there.

    To generate, give a decoder of `tfx_transformer.decoding` the `step` and the prompt as `prefix`:

        state = model.initial_state(prompt, max_length)
        decoder(model.step, state, batch_size, max_length, START, END, PAD, prefix=prompt)

    With OpenAI's vocabulary one token, 50256, is START, END and PAD.

    Args:
        vocab_size: V.
        dim, depth, num_heads, mlp_dim: D; blocks; H; F.
        max_length: how many positions there are.
        dropout: of embedded tokens, sub-layers and attention weights.
        attention, activation, norm, initializer: as in `TransformerBlock`.
    """

    variants = {  # table 2 of the paper, but for "tiny", for tests
        "tiny": dict(dim=16, depth=2, num_heads=4, mlp_dim=24, max_length=32),
        "small": dict(dim=768, depth=12, num_heads=12, mlp_dim=3072),
        "medium": dict(dim=1024, depth=24, num_heads=16, mlp_dim=4096),
        "large": dict(dim=1280, depth=36, num_heads=20, mlp_dim=5120),
        "xl": dict(dim=1600, depth=48, num_heads=25, mlp_dim=6400),
    }

    def __init__(
        self,
        vocab_size,
        dim,
        depth,
        num_heads,
        mlp_dim,
        max_length=1024,
        attention="multi_head",
        activation="gelu_tanh",
        norm=LAYER_NORM,
        dropout=0.1,
        initializer=INITIALIZER,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, dim=dim, depth=depth)
        check_rate(dropout=dropout)
        self.vocab_size, self.max_length = vocab_size, max_length
        self.dim, self.depth, self.num_heads, self.mlp_dim = dim, depth, num_heads, mlp_dim
        self.attention, self.activation, self.norm = attention, activation, norm
        self.dropout, self.initializer = dropout, initializer

        shared = {"dtype": self.dtype_policy}
        table = {"scale": False, "pad_id": None, "initializer": initializer} | shared
        self.tokens = TokenEmbedding(vocab_size, dim, name="tokens", **table)
        self.place = LearnedPosition(max_length, initializer=initializer, name="place", **shared)
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
                dropout=dropout,
                initializer=initializer,
                name=f"block_{i}",
                **shared,
            )
            for i in range(depth)
        ]
        self.last_norm = NORM.make(norm, name="last_norm", **shared)

    def build(self, tokens_shape):
        self.tokens.build((None, None))
        for layer in (self.place, *self.blocks, self.last_norm):
            layer.build((None, None, self.dim))

    def call(self, tokens, training=None):
        return self.decode(tokens, training=training)[0]

    def decode(self, tokens, caches=None, index=0, training=None):
        """(B, T) at positions index … → logits (B, T, V), weights and caches of each block."""
        x = self.place(self.tokens(tokens), start=index)
        x = self.drop(x, training=training)
        length = ops.shape(tokens)[1]
        causal = None if caches else causal_mask(length, length)
        weights, new_caches = [], []
        for i, block in enumerate(self.blocks):
            x, seen, cache = block(
                x,
                attention_mask=causal,
                cache=caches[i] if caches else None,
                index=index,
                training=training,
            )
            weights.append(seen["self"])
            new_caches.append(cache)
        x = self.last_norm(x, training=training)
        return self.tokens.logits(x), weights, new_caches

    def initial_state(self, inputs, max_length):
        """What decoding starts from: room for `max_length` tokens in each of the B rows of inputs.

        Nothing else of them counts: the decoder feeds the prompt, token by token.
        """
        if isinstance(max_length, int) and max_length > self.max_length:
            raise ValueError(
                f"max_length must not exceed the model's {self.max_length} positions; "
                f"got max_length={max_length}"
            )
        batch_size = ops.shape(inputs)[0]
        caches = [block.empty_cache(batch_size, max_length) for block in self.blocks]
        return {"fixed": {}, "moving": {"caches": caches}}

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next, and the new state."""
        caches = state["moving"]["caches"]
        logits, _, caches = self.decode(tokens[:, None], caches, index)
        return logits[:, 0], {"fixed": state["fixed"], "moving": {"caches": caches}}

    def attention_maps(self, tokens):
        """{"block_0/self": (B, H, T, T), …}."""
        _, weights, _ = self.decode(tokens)
        return {f"block_{i}/self": seen for i, seen in enumerate(weights)}
