"""The Transformer: a translator made of attention alone (arXiv:1706.03762).

    source → embed + position → block × depth → memory
    target → embed + position → block (reads memory) × depth → logits of the next token

The paper's model is post-norm, with biases in every projection, fixed positions and one table for
source, target and output. `norm_first` adds a last norm to each stack, as pre-norm models need.
"""

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import NORM, POSITION, TokenEmbedding, TransformerBlock
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.masks import causal_mask, padding_mask


class Transformer(Configured, keras.Model):
    """Translates: {"source": (B, S), "target": (B, T)} ids → logits (B, T, V).

    Position t of the logits says what follows target tokens 0 … t; id 0 is padding.

    Args:
        vocab_size: V, of the target.
        dim, depth, num_heads, mlp_dim: D; blocks in each stack; H; F.
        decoder_depth: blocks of the decoder, where it has others: few make decoding fast.
        source_vocab_size: of the source, where it has a vocabulary of its own.
        tie: which tables are one: "all" (source, target and output), "output" (target and output)
            or "none"; None ties what the vocabularies allow.
        output_bias: whether each token has a number of its own that is added to its logit.
        position: a name in POSITION that acts on tokens, or a dict of its options.
        memory: decoder block i reads the encoder's "final" block, or "layerwise" its block i.
        attention: of all blocks, a name in ATTENTION or a dict of its options.
        activation, norm, norm_first, dropout, drop_path, initializer: as in `TransformerBlock`;
            dropout also falls on the embedded tokens.
    """

    variants = {  # table 3 of the paper, but for "tiny", for tests, and "small", for small corpora
        "tiny": dict(dim=16, depth=2, num_heads=4, mlp_dim=24, dropout=0.1),
        "small": dict(dim=256, depth=3, num_heads=4, mlp_dim=1024, dropout=0.1),
        "base": dict(dim=512, depth=6, num_heads=8, mlp_dim=2048, dropout=0.1),
        "big": dict(dim=1024, depth=6, num_heads=16, mlp_dim=4096, dropout=0.3),
    }

    def __init__(
        self,
        vocab_size,
        dim,
        depth,
        num_heads,
        mlp_dim,
        decoder_depth=None,
        source_vocab_size=None,
        tie=None,
        output_bias=False,
        position="sinusoidal",
        memory="final",
        attention="multi_head",
        activation="relu",
        norm="layer",
        norm_first=False,
        dropout=0.1,
        drop_path=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, dim=dim, depth=depth)
        check_choice("all", "output", "none", None, tie=tie)
        check_choice("final", "layerwise", memory=memory)
        check_rate(dropout=dropout)
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
        tie = tie or ("output" if source_vocab_size not in (None, vocab_size) else "all")
        self.vocab_size, self.source_vocab_size = vocab_size, source_vocab_size
        self.dim, self.depth, self.num_heads, self.mlp_dim = dim, depth, num_heads, mlp_dim
        self.tie, self.position, self.memory, self.attention = tie, position, memory, attention
        self.decoder_depth, self.output_bias = decoder_depth, output_bias
        self.activation, self.norm, self.norm_first = activation, norm, norm_first
        self.dropout, self.drop_path, self.initializer = dropout, drop_path, initializer

        shared = {"dtype": self.dtype_policy}
        self.target_embedding = TokenEmbedding(vocab_size, dim, name="target_embedding", **shared)
        self.source_embedding = self.target_embedding
        if tie != "all":
            size = source_vocab_size or vocab_size
            self.source_embedding = TokenEmbedding(size, dim, name="source_embedding", **shared)
        self.source_position = POSITION.make(position, name="source_position", **shared)
        self.target_position = POSITION.make(position, name="target_position", **shared)
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)

        def block(name, i, depth, cross_attention=None):
            return TransformerBlock(
                dim,
                num_heads,
                mlp_dim,
                attention=attention,
                cross_attention=cross_attention,
                activation=activation,
                norm=norm,
                norm_first=norm_first,
                dropout=dropout,
                drop_path=drop_path * i / max(depth - 1, 1),
                initializer=initializer,
                name=f"{name}_{i}",
                **shared,
            )

        self.encoder = [block("encoder", i, depth) for i in range(depth)]
        self.decoder = [
            block("decoder", i, decoder_depth, cross_attention=attention)
            for i in range(decoder_depth)
        ]
        if norm_first:
            self.encoder_norm = NORM.make(norm, name="encoder_norm", **shared)
            self.decoder_norm = NORM.make(norm, name="decoder_norm", **shared)

    def build(self, input_shape):
        shape = (None, None, self.dim)
        self.target_embedding.build((None, None))
        if self.tie != "all":
            self.source_embedding.build((None, None))
        for layer in (self.source_position, self.target_position, *self.encoder):
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

    def call(self, inputs, training=None):
        memory, source_mask, _ = self.encode(inputs["source"], training=training)
        return self.decode(inputs["target"], memory, source_mask, training=training)[0]

    def encode(self, source, training=None):
        """(B, S) → the memory that each decoder block reads, [(B, S, D)] × decoder_depth; the mask
        (B, 1, 1, S); and the weights [(B, H, S, S)] × depth."""
        mask = padding_mask(source)
        x = self.source_position(self.source_embedding(source))
        x = self.drop(x, training=training)
        outputs, weights = [], []
        for block in self.encoder:
            x, seen, _ = block(x, attention_mask=mask, token_mask=mask[:, 0, 0], training=training)
            outputs.append(x)
            weights.append(seen["self"])
        if self.norm_first:
            outputs = [self.encoder_norm(x, mask[:, 0, 0], training=training) for x in outputs]
        memory = outputs if self.memory == "layerwise" else outputs[-1:] * self.decoder_depth
        return memory, mask, weights

    def decode(self, target, memory, source_mask, caches=None, index=0, training=None):
        """(B, T) at positions index … → logits (B, T, V), weights and caches of each block."""
        token_mask = ops.not_equal(target, 0)
        x = self.target_position(self.target_embedding(target), start=index)
        x = self.drop(x, training=training)
        length = ops.shape(target)[1]
        causal = None if caches else causal_mask(length, length)
        weights, new_caches = [], []
        for i, block in enumerate(self.decoder):
            x, seen, cache = block(
                x,
                context=memory[i],
                attention_mask=causal,
                cross_mask=source_mask,
                token_mask=token_mask,
                cache=caches[i] if caches else None,
                index=index,
                training=training,
            )
            weights.append(seen)
            new_caches.append(cache)
        if self.norm_first:
            x = self.decoder_norm(x, token_mask, training=training)
        return self.logits(x), weights, new_caches

    def logits(self, x):
        """(B, T, D) → (B, T, V)."""
        y = apply_dense(self.head, x) if self.tie == "none" else self.target_embedding.logits(x)
        return y + ops.cast(self.bias, y.dtype) if self.output_bias else y

    def initial_state(self, inputs, max_length):
        """What decoding starts from: the source read once, and room for `max_length` tokens."""
        source = inputs["source"]
        memory, mask, _ = self.encode(source)
        batch_size = ops.shape(source)[0]
        read = [block.prepare(x) for block, x in zip(self.decoder, memory, strict=True)]
        caches = [block.empty_cache(batch_size, max_length) for block in self.decoder]
        coverage = ops.zeros(ops.shape(source), "float32")
        return {
            "fixed": {"memory": read, "source_mask": mask[:, 0, 0]},
            "moving": {"caches": caches, "coverage": coverage},
        }

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next, and the new state."""
        fixed, moving = state["fixed"], state["moving"]
        mask = fixed["source_mask"][:, None, None]
        logits, weights, caches = self.decode(
            tokens[:, None], fixed["memory"], mask, moving["caches"], index
        )
        seen = ops.mean(weights[-1]["cross"], axis=1)[:, 0]  # (B, S), what the last block read
        moving = {"caches": caches, "coverage": moving["coverage"] + seen}
        return logits[:, 0], {"fixed": fixed, "moving": moving}

    def attention_maps(self, inputs):
        """{"encoder_0/self": (B, H, S, S), "decoder_0/self": (B, H, T, T), "…/cross": …}."""
        memory, mask, encoder = self.encode(inputs["source"])
        _, decoder, _ = self.decode(inputs["target"], memory, mask)
        maps = {f"encoder_{i}/self": weights for i, weights in enumerate(encoder)}
        for i, weights in enumerate(decoder):
            maps |= {f"decoder_{i}/{kind}": weights[kind] for kind in ("self", "cross")}
        return maps
