"""ByteNet: dilated convolutions for translation and language modeling (arXiv:1610.10099).

    source → embed → block × depth → memory, a column for each target position
    target + memory, column by column → masked block × depth → logits of the next token

There is no attention: the decoder is stacked on the encoder, and dilations 1, 2, 4, … give a
receptive field that grows exponentially with the depth. Dynamic unfolding (section 3.2): a source
of length |s| is padded to |t̂| = a|s| + b columns before it is encoded; further target positions
have columns of zeros. Characters or subwords are a matter of the tokenizer.

Where the paper is silent: columns and target embeddings are added, and the memory is normalized
first, so that both have the same scale. Normalization is layer norm, in language models too.
"""

from typing import Any, Literal

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_whole
from tfx_transformer.config import Serializable
from tfx_transformer.layers import LayerNorm, SequenceConv, TokenEmbedding
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.models.base import BaseModel, Published


class ByteNet(BaseModel):
    """Translation model: {"source": (B, S), "target": (B, T)} token ids → logits (B, T, V).

    Position t of the logits predicts the token after target tokens 0 … t; id 0 is padding. With
    encoder=False it is a language model: tokens (B, T) → logits (B, T, V).

    Args:
        vocab_size: size V of the target vocabulary.
        dim: width D of the inner channels; embeddings and residuals are 2D wide.
        depth: number of blocks of the encoder, and of the decoder.
        kernel_size: positions that a convolution spans; odd.
        max_dilation: blocks have the dilations 1, 2, 4, … up to this one, then again from 1.
        block: kind of residual block: "relu" or "multiplicative".
        encoder: whether there is a source, to translate; without it, it is a language model.
        source_vocab_size: size of the source vocabulary, if it has its own.
        length_ratio: a of the unfolding, in hundredths: columns per source token; 1 or more.
        length_offset: b of the unfolding: further columns.
        max_length: of a language model: number of tokens of a text, prompt included.
        dropout: dropout rate of the features before the output layer.
        initializer: Keras initializer of the kernels.
    """

    published = Published(
        "1610.10099", {"vocab_size": 300}, {"wmt": 273_384_300, "wikipedia": 159_244_588}
    )
    variants = {  # the paper's; "small" is for small corpora
        "test": dict(dim=6, depth=3, max_dilation=2, max_length=32),
        "small": dict(dim=128, depth=10, dropout=0.2),
        "wmt": dict(dim=800, depth=30),
        "wikipedia": dict(dim=512, depth=30, block="multiplicative", encoder=False, max_length=512),
    }

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        depth: int,
        kernel_size: int = 3,
        max_dilation: int = 16,
        block: Literal["relu", "multiplicative"] = "relu",
        encoder: bool = True,
        source_vocab_size: int | None = None,
        length_ratio: float = 1.2,
        length_offset: int = 0,
        max_length: int = 1024,
        dropout: float = 0.1,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(max_dilation=max_dilation, max_length=max_length)
        check_whole(length_offset=length_offset)
        if length_ratio < 1:
            raise ValueError(f"length_ratio must be 1 or more; got {length_ratio=}")
        self.percent = round(100 * length_ratio)  # whole, so that lengths are rounded alike

        shared = {"dtype": self.dtype_policy}
        width, rates = 2 * dim, dilations(depth, max_dilation)
        self.target_embedding = self.make(TokenEmbedding, dim=width, name="target_embedding")
        self.drop = Dropout(dropout, name="drop", **shared)
        if encoder:
            self.source_embedding = TokenEmbedding(
                source_vocab_size or vocab_size, width, name="source_embedding", **shared
            )
            self.encoder_blocks = [
                self.make(ByteNetBlock, dilation=rate, causal=False, name=f"encoder_{i}")
                for i, rate in enumerate(rates)
            ]
            self.encoder_norm = LayerNorm(name="encoder_norm", **shared)
        self.decoder_blocks = [
            self.make(ByteNetBlock, dilation=rate, causal=True, name=f"decoder_{i}")
            for i, rate in enumerate(rates)
        ]
        self.last_norm = LayerNorm(name="last_norm", **shared)

    def input_shapes(self):
        tokens = (None, None)
        return {"source": tokens, "target": tokens} if self.encoder else tokens

    def build_layers(self):
        shape = (None, None, 2 * self.dim)
        self.target_embedding.build((None, None))
        if self.encoder:
            self.source_embedding.build((None, None))
            for layer in (*self.encoder_blocks, self.encoder_norm):
                layer.build(shape)
        for layer in (*self.decoder_blocks, self.last_norm):
            layer.build(shape)
        self.features = build_dense(self, "features", 2 * self.dim, 2 * self.dim)
        self.head = build_dense(self, "head", 2 * self.dim, self.vocab_size)

    def layer_groups(self):
        decoder = [[block] for block in self.decoder_blocks]
        if not self.encoder:
            return [[self.target_embedding], *decoder]
        encoder = [[block] for block in self.encoder_blocks]
        encoder[-1].append(self.encoder_norm)
        return [[self.source_embedding, self.target_embedding], *encoder, *decoder]

    def call(self, inputs, training=None):
        if not self.encoder:
            return self.decode(inputs, training=training)[0]
        target = inputs["target"]
        memory = take_columns(self.encode(inputs["source"]), ops.shape(target)[1])
        return self.decode(target, memory, training=training)[0]

    def unfolded(self, length):
        """|t̂| = a|s| + b, rounded up, of a whole number or of a tensor."""
        return -(-self.percent * length // 100) + self.length_offset

    def encode(self, source):
        """(B, S) → the memory (B, |t̂|, 2D); zeros beyond a row's own |t̂|."""
        source = ops.cast(source, "int32")
        batch_size, length = ops.shape(source)
        padding = ops.zeros((batch_size, self.unfolded(length) - length), "int32")
        source = ops.concatenate([source, padding], axis=1)
        columns = self.unfolded(ops.sum(ops.cast(source != 0, "int32"), axis=1))  # (B,)
        mask = ops.arange(ops.shape(source)[1], dtype="int32") < columns[:, None]
        x = self.source_embedding(source)
        for block in self.encoder_blocks:
            x = block(x, token_mask=mask)
        x = self.encoder_norm(x)
        return ops.where(mask[..., None], x, ops.zeros_like(x))

    def decode(self, tokens, memory=None, caches=None, training=None):
        """(B, T) and their columns of the memory (B, T, 2D) → logits (B, T, V), new caches."""
        x = self.target_embedding(tokens)
        x = x if memory is None else x + memory
        new_caches = []
        for i, block in enumerate(self.decoder_blocks):
            if caches:
                x, cache = block(x, cache=caches[i])
                new_caches.append(cache)
            else:
                x = block(x)
        x = apply_dense(self.features, ops.relu(self.last_norm(x)))
        x = self.drop(ops.relu(x), training=training)
        return apply_dense(self.head, x), new_caches

    def initial_state(self, inputs, max_length):
        """State of decoding: `max_length` columns of the source, and the convolutions' inputs.

        A language model does not use the values of the inputs (B, …): the decoder reads the
        prompt, its prefix.
        """
        constant = {}
        if self.encoder:
            inputs = inputs["source"]
            constant["memory"] = take_columns(self.encode(inputs), max_length)
        batch_size = ops.shape(inputs)[0]
        caches = [block.conv.empty_cache(batch_size) for block in self.decoder_blocks]
        return {"constant": constant, "carry": {"caches": caches}}

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next tokens, and the new state.

        A chunk of tokens (B, T) at positions index … gives logits (B, T, V).
        """
        chunk = tokens if len(tokens.shape) == 2 else tokens[:, None]
        constant, memory = state["constant"], None
        if self.encoder:
            positions = index + ops.arange(ops.shape(chunk)[1], dtype="int32")
            memory = ops.take(constant["memory"], positions, axis=1)  # (B, T, 2D)
        logits, caches = self.decode(chunk, memory, state["carry"]["caches"])
        state = {"constant": constant, "carry": {"caches": caches}}
        return logits if chunk is tokens else logits[:, 0], state

    def attention_maps(self, inputs):
        """Empty: there is no attention."""
        return {}


class ByteNetBlock(Serializable, keras.layers.Layer):
    """Residual block, figure 3 of the paper: (B, T, 2D) → (B, T, 2D).

        relu             norm, ReLU, 1×1 → D; norm, ReLU, 1×k → D; norm, ReLU, 1×1 → 2D
        multiplicative   norm, ReLU, 1×1 → D; norm, MU 1×k; norm, MU 1×1; 1×1 → 2D

    Args:
        dim: D.
        kernel_size, dilation, causal: of the 1×k convolution, as in `SequenceConv`.
        block: "relu" or "multiplicative".
        initializer: of the kernels.

    Call arguments:
        x: (B, T, 2D).
        token_mask: (B, T); positions where it is False count as zeros.
        cache: the last inputs of the convolution, for step-by-step decoding.

    Returns:
        The output; with `cache` also the new cache.
    """

    def __init__(
        self,
        dim,
        kernel_size,
        dilation,
        causal,
        block="relu",
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice("relu", "multiplicative", block=block)
        self.parts = 1 if block == "relu" else 4  # the gates and the update of a unit
        self.norms = [LayerNorm(dtype=self.dtype_policy, name=f"norm_{i}") for i in range(3)]
        self.conv = self.make(SequenceConv, dim=self.parts * dim, name="conv")

    def build(self, x_shape):
        width, dim = x_shape[-1], self.dim
        for norm, size in zip(self.norms, (width, dim, dim), strict=True):
            norm.build((None, None, size))
        self.narrow = build_dense(self, "narrow", width, dim)
        self.conv.build((None, None, dim))
        if self.block == "multiplicative":
            self.unit = build_dense(self, "unit", dim, 4 * dim)
        self.widen = build_dense(self, "widen", dim, width)

    def call(self, x, token_mask=None, cache=None):
        y = apply_dense(self.narrow, ops.relu(self.norms[0](x)))
        y = self.norms[1](y)
        y = ops.relu(y) if self.block == "relu" else y
        if token_mask is not None:
            y = ops.where(token_mask[..., None], y, ops.zeros_like(y))
        if cache is None:
            z = self.conv(y)
        else:
            z, cache = self.conv(y, cache=cache)
        if self.block == "relu":
            z = ops.relu(self.norms[2](z))
        else:
            y = self.norms[2](multiplicative_unit(y, z))
            z = multiplicative_unit(y, apply_dense(self.unit, y))
        x = x + apply_dense(self.widen, z)
        return x if cache is None else (x, cache)


def multiplicative_unit(x, parts):
    """g₁ tanh(g₂x + g₃u) of x (…, D) and the four linear maps of it (…, 4D), before σ and tanh."""
    *gates, update = ops.split(parts, 4, axis=-1)
    first, second, third = (ops.sigmoid(gate) for gate in gates)
    return first * ops.tanh(second * x + third * ops.tanh(update))


def take_columns(memory, length):
    """The first `length` columns of (B, S, C), with zeros after the last."""
    batch_size, _, width = ops.shape(memory)
    zeros = ops.zeros((batch_size, length, width), memory.dtype)
    return ops.concatenate([memory, zeros], axis=1)[:, :length]


def dilations(depth, largest):
    """1, 2, 4, … up to the largest, again and again: `depth` numbers."""
    rates = [2**i for i in range(largest.bit_length()) if 2**i <= largest]
    return [rates[i % len(rates)] for i in range(depth)]
