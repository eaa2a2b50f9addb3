"""Transformer: an encoder and a decoder made of attention, for translation (arXiv:1706.03762).

    source → embed + position → block × depth → memory
    target → embed + position → block (with cross-attention to the memory) × depth → logits

The paper's model is post-norm, with biases in every projection, sinusoidal positions and one table
for source, target and output. `norm_first` adds a last norm to each stack, as pre-norm models need.
"""

from typing import Any, Literal

from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.layers import (
    ATTENTION,
    NORM,
    POSITION,
    MultiHeadAttention,
    TokenEmbedding,
    TransformerBlock,
)
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.layers.masks import causal_mask, padding_mask
from tfx_transformer.models.base import BaseModel, Published, run_blocks


class Transformer(BaseModel):
    """Translation model: {"source": (B, S), "target": (B, T)} token ids → logits (B, T, V).

    Position t of the logits predicts the token after target tokens 0 … t; id 0 is padding.

    Args:
        vocab_size: size V of the target vocabulary.
        dim: width D of the tokens.
        depth: number of encoder blocks.
        num_heads: attention heads of a block; divides `dim`.
        mlp_dim: width of the feed-forward layers.
        decoder_depth: number of decoder blocks, `depth` by default; few make decoding fast.
        source_vocab_size: size of the source vocabulary, if it has its own.
        tie: which embedding tables are shared: "all" (source, target and output), "output" (target
            and output) or "none"; None is "output" if `source_vocab_size` is given, else "all".
        output_bias: whether a learned bias is added to the logits.
        position: a name in POSITION, or a dict of its options. "rotary" and "relative" act inside
            self-attention; "learned" has 1024 positions, or its option `max_length`; None: no
            positions.
        memory: encoder output that decoder block i attends to: "final", of the last encoder block,
            or "layerwise", of encoder block i.
        attention: a name in ATTENTION, or a dict of its options.
        activation: activation of the feed-forward layers.
        norm: a name in NORM, or a dict of its options.
        norm_first: whether to normalize the input of each layer (pre-norm), or its output plus
            residual (post-norm).
        dropout: dropout rate of embeddings and of each block's layers.
        drop_path: rate at which the last block is skipped; it grows linearly over the blocks.
        initializer: Keras initializer of the kernels.
    """

    published = Published(
        "1706.03762", {"vocab_size": 32_000}, {"base": 60_522_496, "big": 209_125_376}
    )
    variants = {  # table 3 of the paper; "small" is for small corpora
        "test": dict(dim=16, depth=2, num_heads=4, mlp_dim=24, dropout=0.1),
        "small": dict(dim=256, depth=3, num_heads=4, mlp_dim=1024, dropout=0.1),
        "base": dict(dim=512, depth=6, num_heads=8, mlp_dim=2048, dropout=0.1),
        "big": dict(dim=1024, depth=6, num_heads=16, mlp_dim=4096, dropout=0.3),
    }

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        depth: int,
        num_heads: int,
        mlp_dim: int,
        decoder_depth: int | None = None,
        source_vocab_size: int | None = None,
        tie: Literal["all", "output", "none"] | None = None,
        output_bias: bool = False,
        position: str | dict[str, Any] | None = "sinusoidal",
        memory: Literal["final", "layerwise"] = "final",
        attention: str | dict[str, Any] = "multi_head",
        activation: str = "relu",
        norm: str | dict[str, Any] = "layer",
        norm_first: bool = False,
        dropout: float = 0.1,
        drop_path: float = 0.0,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice("all", "output", "none", None, tie=tie)
        check_choice("final", "layerwise", memory=memory)
        if tie == "all" and source_vocab_size not in (None, vocab_size):
            raise ValueError(
                'tie="all" needs one vocabulary; '
                f"got source_vocab_size={source_vocab_size}, vocab_size={vocab_size}"
            )
        decoder_depth = depth if decoder_depth is None else decoder_depth
        check_positive(decoder_depth=decoder_depth)
        if memory == "layerwise" and decoder_depth != depth:
            raise ValueError(
                'memory="layerwise" needs stacks of one depth; '
                f"got depth={depth}, decoder_depth={decoder_depth}"
            )
        tie = tie or ("all" if source_vocab_size is None else "output")
        self.decoder_depth, self.tie = decoder_depth, tie

        shared = {"dtype": self.dtype_policy}
        self.target_embedding = TokenEmbedding(vocab_size, dim, name="target_embedding", **shared)
        self.source_embedding = self.target_embedding
        if tie != "all":
            size = source_vocab_size or vocab_size
            self.source_embedding = TokenEmbedding(size, dim, name="source_embedding", **shared)
        position, self_attention = place_position(position, attention)
        self.source_position = position and POSITION.make(
            position, name="source_position", **shared
        )
        self.target_position = position and POSITION.make(
            position, name="target_position", **shared
        )
        self.drop = Dropout(dropout, name="drop", **shared)

        kinds = {"attention": self_attention}
        self.encoder = self.make_blocks(TransformerBlock, depth, "encoder", **kinds)
        kinds["cross_attention"] = attention
        self.decoder = self.make_blocks(TransformerBlock, decoder_depth, "decoder", **kinds)
        if norm_first:
            self.encoder_norm = NORM.make(norm, name="encoder_norm", **shared)
            self.decoder_norm = NORM.make(norm, name="decoder_norm", **shared)

    @property
    def positions(self):
        """The position layers before the first blocks; none if positions are inside attention."""
        return [layer for layer in (self.source_position, self.target_position) if layer]

    def input_shapes(self):
        return {"source": (None, None), "target": (None, None)}

    def build_layers(self):
        shape = (None, None, self.dim)
        self.target_embedding.build((None, None))
        if self.tie != "all":
            self.source_embedding.build((None, None))
        for layer in (*self.positions, *self.encoder):
            layer.build(shape)
        for layer in self.decoder:
            layer.build(shape, shape)
        if self.norm_first:
            self.encoder_norm.build(shape)
            self.decoder_norm.build(shape)
        if self.tie == "none":
            self.head = build_dense(self, "head", self.dim, self.vocab_size, use_bias=False)
        if self.output_bias:
            shape = (self.vocab_size,)
            self.bias = self.add_weight(shape=shape, initializer="zeros", name="output_bias")

    def layer_groups(self):
        embeddings = [self.source_embedding, self.target_embedding]
        blocks = [[block] for block in (*self.encoder, *self.decoder)]
        if self.norm_first:
            blocks[self.depth - 1].append(self.encoder_norm)
        return [embeddings + self.positions, *blocks]

    def call(self, inputs, training=None):
        memory, source_mask, _ = self.encode(inputs["source"], training=training)
        return self.decode(inputs["target"], memory, source_mask, training=training)[0]

    def encode(self, source, training=None):
        """(B, S) → the memory of each decoder block, [(B, S, D)] × decoder_depth; the padding mask
        (B, 1, 1, S); and the attention maps."""
        mask = padding_mask(source)
        token_mask = mask[:, 0, 0]
        x = self.source_embedding(source)
        x = self.source_position(x) if self.source_position else x
        x = self.drop(x, training=training)
        outputs, maps, _ = run_blocks(
            self.encoder, x, attention_mask=mask, token_mask=token_mask, training=training
        )
        if self.norm_first:
            outputs = [self.encoder_norm(x, token_mask, training=training) for x in outputs]
        memory = outputs if self.memory == "layerwise" else outputs[-1:] * self.decoder_depth
        return memory, mask, maps

    def decode(self, target, memory, source_mask, caches=None, index=0, shared=None, training=None):
        """(B, T) at positions index … → logits (B, T, V), attention maps, new caches.

        shared: what `share` computes once for many calls.
        """
        shared = shared or {}
        token_mask = ops.not_equal(target, 0)
        x = self.target_embedding(target)
        if self.target_position:
            x = self.target_position(x, start=index, table=shared.get("positions"))
        x = self.drop(x, training=training)
        length = ops.shape(target)[1]
        causal = None if caches else causal_mask(length, length)
        (*_, x), maps, caches = run_blocks(
            self.decoder,
            x,
            memory,
            caches,
            attention_mask=causal,
            cross_mask=source_mask,
            token_mask=token_mask,
            index=index,
            training=training,
        )
        if self.norm_first:
            x = self.decoder_norm(x, token_mask, training=training)
        return self.logits(x, shared.get("output")), maps, caches

    def logits(self, x, transposed=None):
        """(B, T, D) → (B, T, V); see `TokenEmbedding.logits`."""
        tied = self.tie != "none"
        y = self.target_embedding.logits(x, transposed) if tied else apply_dense(self.head, x)
        return y + ops.cast(self.bias, y.dtype) if self.output_bias else y

    def initial_state(self, inputs, max_length, grow=False):
        """State of decoding: the encoded source, and empty caches of `max_length` tokens.

        With `grow` the caches grow with the tokens; see `Attention.empty_cache`.
        """
        source = inputs["source"]
        memory, mask, _ = self.encode(source)
        batch_size = ops.shape(source)[0]
        keys_values = [block.precompute(x) for block, x in zip(self.decoder, memory, strict=True)]
        caches = [block.empty_cache(batch_size, max_length, grow) for block in self.decoder]
        coverage = ops.zeros(ops.shape(source), "float32")
        return {
            "shared": self.share(max_length),
            "constant": {"memory": keys_values, "source_mask": mask[:, 0, 0]},
            "carry": {"caches": caches, "coverage": coverage},
        }

    def share(self, max_length):
        """What all steps of decoding share: positions, and the output layer's table transposed."""
        position, tied = self.target_position, self.tie != "none"
        return {
            "positions": position and position.precompute(max_length, self.dim),
            "output": self.target_embedding.transpose() if tied else None,
        }

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next tokens, and the new state.

        A chunk of tokens (B, T) at positions index … gives logits (B, T, V).
        """
        chunk = tokens if len(tokens.shape) == 2 else tokens[:, None]
        constant, carry = state["constant"], state["carry"]
        logits, maps, caches = self.decode(
            chunk,
            constant["memory"],
            constant["source_mask"][:, None, None],
            carry["caches"],
            index,
            state.get("shared"),
        )
        new = {"caches": caches}
        if "coverage" in carry:
            attended = ops.mean(maps[f"{self.decoder[-1].name}/cross"], axis=1)  # (B, T, S)
            new["coverage"] = carry["coverage"] + ops.sum(attended, axis=1)
        return logits if chunk is tokens else logits[:, 0], state | {"carry": new}

    def attention_maps(self, inputs):
        """{"encoder_0/self": (B, H, S, S), "decoder_0/self": (B, H, T, T), "…/cross": …}."""
        memory, mask, maps = self.encode(inputs["source"])
        return maps | self.decode(inputs["target"], memory, mask)[1]


def place_position(position, attention):
    """Where a position layer acts → (position on tokens or None, spec of self-attention)."""
    if position is None:
        return None, attention
    kind, options = POSITION.find(position)
    if kind is POSITION["sincos_2d"]:
        raise ValueError(f"position must be of a sequence, not of an image; got {position!r}")
    if kind is POSITION["learned"]:
        return {"kind": "learned", "max_length": 1024} | options, attention
    if kind.acts_on == "tokens":
        return position, attention
    if not issubclass(ATTENTION.find(attention)[0], MultiHeadAttention):
        raise ValueError(f"position={position!r} needs multi-head attention; got {attention=}")
    own = attention if isinstance(attention, dict) else {"kind": attention}
    return None, {"position": position} | own
