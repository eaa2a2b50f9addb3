"""Recurrent encoder-decoder for translation, with and without attention (2014 and 2015).

    source → embed → LSTM or GRU × depth → memory; its last state is the decoder's first
    target → embed → LSTM or GRU × depth → logits of the next token

Without `attention` the decoder knows of the source only the encoder's last state: one vector, for
sentences of any length (arXiv:1409.3215, arXiv:1406.1078). With it the decoder's state is the
query, every encoder state a key and a value (arXiv:1409.0473, arXiv:1508.04025).
"""

from typing import Any, Literal

import keras
from keras import ops

from tfx_transformer.layers import TokenEmbedding
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.layers.recurrent import RecurrentDecoder, make_recurrent
from tfx_transformer.models.base import Published, RecurrentModel

GRU: dict[str, Any] = dict(dim=512, depth=1, embedding_dim=256, cell="gru", dropout=0.5) | dict(
    feed="context", readout="deep"
)


class RNNSeq2Seq(RecurrentModel):
    """Translation model: {"source": (B, S), "target": (B, T)} token ids → logits (B, T, V).

    Position t of the logits predicts the token after target tokens 0 … t; id 0 is padding.

    Args:
        vocab_size: size V of the target vocabulary.
        dim: width D of a recurrent state.
        depth: number of recurrent layers of the encoder, and of the decoder.
        embedding_dim: width of a token embedding.
        source_vocab_size: size of the source vocabulary, if it has its own.
        cell: kind of recurrent layer, "lstm" or "gru".
        reverse_source: whether to read the source from its end, so that its first words are the
            nearest to the translation's first (arXiv:1409.3215, section 3.3).
        bidirectional: whether the encoder reads in both directions; the memory is then 2D wide.
        attention: attention to the encoder's states: None, a name in ATTENTION, or a dict of its
            options. Without it the context is the encoder's last state.
        feed: second input of the decoder's first layer: "none", the "context", or the "features" of
            the previous position (input feeding).
        readout: features that predict the next token: the decoder's "state"; "combined", of state
            and context; or "deep", of state, context and token embedding.
        dropout: dropout rate of embeddings, between layers and of features.
        scheduled_sampling: fraction of target tokens, in training, that are replaced by the
            model's own prediction (arXiv:1506.03099).
        initializer: Keras initializer of the dense kernels.
    """

    # the models of these papers: "luong" with their sizes, the others smaller
    published = Published(
        "1409.3215, 1406.1078, 1409.0473, 1508.04025",
        {"vocab_size": 5893, "source_vocab_size": 7853},
        {"sutskever": 13_890_309, "cho": 14_219_781, "bahdanau": 20_518_405},
    )
    variants = {
        "test": dict(dim=8, depth=2, embedding_dim=6, dropout=0.1),
        "small": dict(dim=256, depth=2, embedding_dim=256, dropout=0.3),
        "sutskever": dict(dim=512, depth=2, embedding_dim=256, dropout=0.5),
        "cho": GRU,
        "bahdanau": GRU | dict(bidirectional=True, attention="additive"),
        "luong": dict(dim=1000, depth=4, embedding_dim=1000, dropout=0.2)
        | dict(reverse_source=True, attention="bilinear", feed="features", readout="combined"),
    }

    def __init__(
        self,
        vocab_size: int,
        dim: int,
        depth: int,
        embedding_dim: int,
        source_vocab_size: int | None = None,
        cell: Literal["lstm", "gru"] = "lstm",
        reverse_source: bool = False,
        bidirectional: bool = False,
        attention: str | dict[str, Any] | None = None,
        feed: Literal["none", "context", "features"] = "none",
        readout: Literal["state", "combined", "deep"] = "state",
        dropout: float = 0.1,
        scheduled_sampling: float = 0.0,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        shared = {"dtype": self.dtype_policy}
        self.source_embedding = TokenEmbedding(
            source_vocab_size or vocab_size, embedding_dim, scale=False, name="embedding", **shared
        )
        self.drop = Dropout(dropout, name="drop", **shared)
        self.encoder = [
            make_recurrent(cell, dim, name=f"encoder_{i}", **shared) for i in range(depth)
        ]
        if bidirectional:
            self.encoder = [
                keras.layers.Bidirectional(layer, name=layer.name, **shared)
                for layer in self.encoder
            ]
        self.decoder = self.make(RecurrentDecoder, name="decoder")

    def input_shapes(self):
        return {"source": (None, None), "target": (None, None)}

    def build_layers(self):
        self.source_embedding.build((None, None))
        memory_dim = 2 * self.dim if self.bidirectional else self.dim
        for i, layer in enumerate(self.encoder):
            layer.build((None, None, memory_dim if i else self.embedding_dim))
        if self.bidirectional:
            self.bridges = self.build_first_states("bridge", memory_dim)
        context_dim = memory_dim if self.attention else self.dim  # else the encoder's last state
        self.decoder.build((None, None), (None, None, context_dim))

    def layer_groups(self):
        embeddings = [self.source_embedding, self.decoder.embedding]
        encoder = [[layer] for layer in self.encoder]
        if self.bidirectional:
            encoder = [[layer, *own] for layer, own in zip(self.encoder, self.bridges, strict=True)]
        decoder = [[cell] for cell in self.decoder.cells]
        if self.attention:
            decoder[0].append(self.decoder.attention_layer)
        return [embeddings, *encoder, *decoder]

    def call(self, inputs, training=None):
        constant, carry = self.encode(inputs, training=training)
        return self.decoder(inputs["target"], constant, carry, training=training)[0]

    def encode(self, inputs, training=None):
        """Encode the source (B, S) → the decoder's constant state and first carry."""
        source = inputs["source"]
        mask = ops.not_equal(source, 0)
        x = reverse_sequences(source, mask) if self.reverse_source else source
        x = self.source_embedding(x)
        states = []
        for i, layer in enumerate(self.encoder):
            x = self.drop(x, training=training)
            x, *state = layer(x, mask=mask, training=training)  # (B, S, D or 2D)
            states.append(self.merge_directions(i, state) if self.bidirectional else state)
        if not self.attention:
            x = states[-1][0][:, None]  # (B, 1, D)
        elif self.reverse_source:
            x = reverse_sequences(x, mask)
        return self.decoder.make_constant(x, mask), self.decoder.make_carry(states, mask)

    def merge_directions(self, i, state):
        """Last states of layer i, forward and backward → the first state of decoder layer i."""
        half = len(state) // 2  # h and c of an LSTM
        pairs = zip(state[:half], state[half:], self.bridges[i], strict=True)
        return [ops.tanh(dense(ops.concatenate([a, b], axis=-1))) for a, b, dense in pairs]


def reverse_sequences(x, mask):
    """Reverse each row (S, …) up to its last real position; padding stays at the end."""
    index = ops.arange(ops.shape(mask)[1])
    length = ops.sum(ops.cast(mask, index.dtype), axis=1, keepdims=True)
    index = ops.where(index < length, length - 1 - index, index)  # (B, S)
    return ops.take_along_axis(x, index[..., None] if len(x.shape) == 3 else index, axis=1)
