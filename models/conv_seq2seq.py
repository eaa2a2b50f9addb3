"""ConvS2S: convolutions with multi-step attention, for translation (arXiv:1705.03122).

    source → embed + position → [convolution, gate] × depth → keys; keys + embedding → values
    target → embed + position → [causal convolution, gate, attention] × depth → logits

A layer convolves, halves the width by a gated linear unit, and adds its input; each sum of two is
multiplied by √0.5 to keep the variance. Every decoder layer attends to the source by itself. The
initialization is that of section 3.5. Unlike the paper, weights are not normalized: Adam, which
the recipes use, needs it less than Nesterov's method does.
"""

import math
from typing import Any, Literal

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.config import Serializable
from tfx_transformer.layers import DotAttention, LearnedPosition, SequenceConv, TokenEmbedding
from tfx_transformer.layers.dense import apply_dense
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.models.base import BaseModel, Published

HALF = math.sqrt(0.5)
TABLE = {"class_name": "RandomNormal", "config": {"stddev": 0.1}}  # of embeddings and positions

WMT: dict[str, Any] = dict(depth=15, embedding_dim=768, readout_dim=512) | dict(
    kernel_size=[3] * 13 + [1] * 2
)


class ConvSeq2Seq(BaseModel):
    """Translation model: {"source": (B, S), "target": (B, T)} token ids → logits (B, T, V).

    Position t of the logits predicts the token after target tokens 0 … t; id 0 is padding.

    Args:
        vocab_size: size V of the target vocabulary.
        dim: width of the layers; a list has the width of each layer.
        depth: number of encoder layers.
        embedding_dim: width E of embeddings and positions, and of what attention compares.
        kernel_size: positions that a convolution spans, odd; a list has that of each layer.
        decoder_depth: number of decoder layers, `depth` by default.
        readout_dim: width of the features that predict the next token, E by default.
        source_vocab_size: size of the source vocabulary, if it has its own.
        tie: which embedding tables are shared: "all" (source, target and output), "output" (target
            and output) or "none".
        max_length: number of learned positions; longer sequences are an error.
        dropout: dropout rate of embeddings, of each layer's input and of the features.
    """

    published = Published(
        "1705.03122",
        {"vocab_size": 40_000},
        {"wmt_en_ro": 137_040_960, "wmt_en_de": 209_445_952, "wmt_en_fr": 257_965_120},
    )
    variants = {  # those of the paper, as released; "small" is for small corpora
        "test": dict(dim=[8, 12], depth=2, embedding_dim=6, kernel_size=[3, 1], max_length=32),
        "small": dict(dim=256, depth=4, embedding_dim=256, decoder_depth=3, dropout=0.2),
        "wmt_en_ro": dict(dim=512, depth=20, embedding_dim=512, dropout=0.2),
        "wmt_en_de": WMT | dict(dim=[512] * 9 + [1024] * 4 + [2048] * 2, dropout=0.2),
        "wmt_en_fr": WMT | dict(dim=[512] * 6 + [768] * 4 + [1024] * 3 + [2048, 4096]),
    }

    def __init__(
        self,
        vocab_size: int,
        dim: int | list[int],
        depth: int,
        embedding_dim: int,
        kernel_size: int | list[int] = 3,
        decoder_depth: int | None = None,
        readout_dim: int | None = None,
        source_vocab_size: int | None = None,
        tie: Literal["all", "output", "none"] = "none",
        max_length: int = 1024,
        dropout: float = 0.1,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_choice("all", "output", "none", tie=tie)
        self.decoder_depth = depth if decoder_depth is None else decoder_depth
        self.readout_dim = embedding_dim if readout_dim is None else readout_dim
        check_positive(decoder_depth=self.decoder_depth, readout_dim=self.readout_dim)
        if tie == "all" and source_vocab_size not in (None, vocab_size):
            raise ValueError(
                'tie="all" needs one vocabulary; '
                f"got source_vocab_size={source_vocab_size}, vocab_size={vocab_size}"
            )
        if tie != "none" and self.readout_dim != embedding_dim:
            raise ValueError(
                f"tie={tie!r} needs readout_dim={embedding_dim}, the embedding_dim; "
                f"got readout_dim={readout_dim}"
            )

        shared = {"dtype": self.dtype_policy}
        table = {"scale": False, "initializer": TABLE}
        self.target_embedding = self.make(
            TokenEmbedding, dim=embedding_dim, **table, name="target_embedding"
        )
        self.source_embedding = self.target_embedding
        if tie != "all":
            self.source_embedding = TokenEmbedding(
                source_vocab_size or vocab_size,
                embedding_dim,
                name="source_embedding",
                **table,
                **shared,
            )
        self.source_position, self.target_position = (
            self.make(LearnedPosition, initializer=TABLE, name=f"{side}_position")
            for side in ("source", "target")
        )
        self.drop = Dropout(dropout, name="drop", **shared)
        self.encoder = self.make_layers("encoder", depth, causal=False)
        self.decoder = self.make_layers("decoder", self.decoder_depth, causal=True)

    def make_layers(self, side, depth, causal):
        sizes = {}
        for name in ("dim", "kernel_size"):
            value = getattr(self, name)
            sizes[name] = list(value) if isinstance(value, list | tuple) else [value] * depth
            if len(sizes[name]) != depth:
                rule = f"{name} must have a number for each of {depth} layers"
                raise ValueError(f"{rule}; got {sizes[name]}")
        return [
            self.make(ConvLayer, dim=dim, kernel_size=size, causal=causal, name=f"{side}_{i}")
            for i, (dim, size) in enumerate(zip(*sizes.values(), strict=True))
        ]

    def input_shapes(self):
        return {"source": (None, None), "target": (None, None)}

    def build_layers(self):
        embedded, keep = (None, None, self.embedding_dim), 1 - self.dropout
        self.target_embedding.build((None, None))
        if self.tie != "all":
            self.source_embedding.build((None, None))
        self.source_position.build(embedded)
        self.target_position.build(embedded)
        widths = {"encoder": self.embedding_dim, "decoder": self.readout_dim}
        for side, layers in (("encoder", self.encoder), ("decoder", self.decoder)):
            first, last = layers[0].dim, layers[-1].dim
            before = build_scaled(self, f"{side}_input", self.embedding_dim, first, keep)
            after = build_scaled(self, f"{side}_output", last, widths[side])
            setattr(self, f"{side}_input", before)
            setattr(self, f"{side}_output", after)
            for i, layer in enumerate(layers):
                layer.build((None, None, layers[max(i - 1, 0)].dim))
        if self.tie == "none":
            self.head = build_scaled(self, "head", self.readout_dim, self.vocab_size, keep)

    def layer_groups(self):
        embeddings = [self.source_embedding, self.target_embedding]
        positions = [self.source_position, self.target_position]
        encoder, decoder = ([[layer] for layer in part] for part in (self.encoder, self.decoder))
        encoder[0].append(self.encoder_input)
        encoder[-1].append(self.encoder_output)
        decoder[0].append(self.decoder_input)
        return [embeddings + positions, *encoder, *decoder]

    def call(self, inputs, training=None):
        keys_values, mask = self.encode(inputs["source"], training=training)
        return self.decode(inputs["target"], keys_values, mask, training=training)[0]

    def encode(self, source, training=None):
        """(B, S) → keys and values of the attentions, (B, 1, S, E) each; padding mask (B, S)."""
        mask = ops.not_equal(source, 0)
        embedded = self.source_position(self.source_embedding(source))
        embedded = self.drop(embedded, training=training)
        x = apply_dense(self.encoder_input, embedded)
        for layer in self.encoder:
            x, _, _ = layer(x, token_mask=mask, training=training)
        keys = apply_dense(self.encoder_output, x)  # (B, S, E)
        if training:  # the gradients of all attentions add up
            share = 1 / self.decoder_depth
            keys = share * keys + (1 - share) * ops.stop_gradient(keys)
        values = (keys + embedded) * HALF
        return (keys[:, None], values[:, None]), mask

    def decode(self, target, keys_values, source_mask, caches=None, index=0, training=None):
        """(B, T) at positions index … → logits (B, T, V), attention maps, new caches."""
        embedded = self.target_position(self.target_embedding(target), start=index)
        embedded = self.drop(embedded, training=training)
        x = apply_dense(self.decoder_input, embedded)
        maps, new_caches = {}, []
        for i, layer in enumerate(self.decoder):
            context = (embedded, keys_values, source_mask)
            cache = caches[i] if caches else None
            x, weights, cache = layer(x, context, cache=cache, training=training)
            maps[f"{layer.name}/cross"] = weights
            new_caches.append(cache)
        x = self.drop(apply_dense(self.decoder_output, x), training=training)
        tied = self.tie != "none"
        logits = self.target_embedding.logits(x) if tied else apply_dense(self.head, x)
        return logits, maps, new_caches

    def initial_state(self, inputs, max_length):
        """State of decoding: the encoded source, and the last inputs of each convolution.

        Its size does not depend on `max_length`, which must not exceed the model's positions.
        """
        if isinstance(max_length, int) and max_length > self.max_length:
            raise ValueError(
                f"max_length must not exceed the model's {self.max_length} positions; "
                f"got max_length={max_length}"
            )
        source = inputs["source"]
        keys_values, mask = self.encode(source)
        caches = [layer.conv.empty_cache(ops.shape(source)[0]) for layer in self.decoder]
        return {
            "constant": {"memory": keys_values, "source_mask": mask},
            "carry": {"caches": caches, "coverage": ops.zeros(ops.shape(source), "float32")},
        }

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next tokens, and the new state.

        A chunk of tokens (B, T) at positions index … gives logits (B, T, V).
        """
        chunk = tokens if len(tokens.shape) == 2 else tokens[:, None]
        constant, carry = state["constant"], state["carry"]
        memory, mask = constant["memory"], constant["source_mask"]
        logits, maps, caches = self.decode(chunk, memory, mask, carry["caches"], index)
        new = {"caches": caches}
        if "coverage" in carry:
            attended = sum(maps.values()) / self.decoder_depth  # (B, 1, T, S)
            new["coverage"] = carry["coverage"] + ops.sum(attended, axis=(1, 2))
        return logits if chunk is tokens else logits[:, 0], state | {"carry": new}

    def attention_maps(self, inputs):
        """{"decoder_0/cross": (B, 1, T, S), …}, one for each decoder layer."""
        keys_values, mask = self.encode(inputs["source"])
        return self.decode(inputs["target"], keys_values, mask)[1]


class ConvLayer(Serializable, keras.layers.Layer):
    """Convolution, gated linear unit and, in a decoder, attention; with a residual.

    Args:
        dim: width D of the output.
        kernel_size: positions that the convolution spans.
        causal: whether it is a decoder layer: causal, with attention to the source.
        embedding_dim: width E of what attention compares.
        dropout: on the input.

    Call arguments:
        x: (B, T, C).
        context: of a decoder layer: target embeddings (B, T, E), keys and values (B, 1, S, E), and
            the padding mask of the source (B, S).
        token_mask: of an encoder layer: (B, T), True at real tokens; others count as zeros.
        cache: the last inputs of the convolution, for step-by-step decoding.

    Returns:
        The output (B, T, D), the attention weights (B, 1, T, S) or None, and the new cache or None.
    """

    def __init__(self, dim, kernel_size, causal, embedding_dim, dropout=0.0, **kwargs):
        super().__init__(autocast=False, **kwargs)
        self.drop = Dropout(dropout, dtype=self.dtype_policy, name="drop")
        self.conv = self.make(
            SequenceConv, dim=2 * dim, initializer=fan_in_normal(4 * (1 - dropout)), name="conv"
        )
        self.attention = self.make(DotAttention, dim=embedding_dim, dropout=0.0, name="attention")

    def build(self, x_shape):
        self.conv.build(x_shape)
        self.widen = None
        if x_shape[-1] != self.dim:
            self.widen = build_scaled(self, "widen", x_shape[-1], self.dim)
        if self.causal:
            self.attention.build((None, None, self.embedding_dim))
            self.to_query = build_scaled(self, "to_query", self.dim, self.embedding_dim)
            self.from_context = build_scaled(self, "from_context", self.embedding_dim, self.dim)

    def call(self, x, context=None, token_mask=None, cache=None, training=None):
        residual = apply_dense(self.widen, x) if self.widen else x
        x = self.drop(x, training=training)
        if token_mask is not None:
            x = ops.where(token_mask[..., None], x, ops.zeros_like(x))
        if cache is None:
            x = self.conv(x)
        else:
            x, cache = self.conv(x, cache=cache)
        x, gate = ops.split(x, 2, axis=-1)
        x, weights = x * ops.sigmoid(gate), None
        if context is not None:
            attended, weights = self.attend(x, *context)
            x = (attended + x) * HALF
        return (x + residual) * HALF, weights, cache

    def attend(self, x, embedded, keys_values, source_mask):
        """Attention of states (B, T, D) and target embeddings (B, T, E) to the source (B, S)."""
        query = (apply_dense(self.to_query, x) + embedded) * HALF
        y, weights, _ = self.attention.attend(query, keys_values, source_mask)  # (B, T, E)
        # a mean of m values has 1/√m of their deviation
        count = ops.sum(ops.cast(source_mask, "float32"), axis=1)
        y = y * ops.cast(ops.sqrt(count), y.dtype)[:, None, None]
        return apply_dense(self.from_context, y), weights


def fan_in_normal(scale):
    """The initializer of variance scale / fan-in."""
    config = {"scale": scale, "mode": "fan_in", "distribution": "untruncated_normal"}
    return {"class_name": "VarianceScaling", "config": config}


def build_scaled(owner, name, input_dim, units, keep=1.0):
    """A built Dense layer that keeps the variance of inputs dropped out but for a part `keep`."""
    initializer = keras.initializers.get(fan_in_normal(keep))
    dense = keras.layers.Dense(
        units, kernel_initializer=initializer, dtype=owner.dtype_policy, name=name
    )
    dense.build((None, input_dim))
    return dense
