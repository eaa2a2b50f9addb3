"""Translation by recurrent networks, with and without attention (2014 and 2015).

    source → embed → LSTM or GRU × depth → memory; its last state is the decoder's first
    target → embed → LSTM or GRU × depth → logits of the next token

Without `attention` the last state is all that the decoder knows of the source: one vector, however
long the sentence (arXiv:1409.3215, arXiv:1406.1078). With it the decoder looks back: its state is
the query, every encoder state a key and a value (arXiv:1409.0473, arXiv:1508.04025).
"""

import keras
from keras import ops

from tfx_transformer.checks import check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers import TokenEmbedding
from tfx_transformer.layers.dense import build_dense
from tfx_transformer.layers.recurrent import RecurrentDecoder, make_recurrent


class RNNSeq2Seq(Configured, keras.Model):
    """Translates: {"source": (B, S), "target": (B, T)} ids → logits (B, T, V).

    Position t of the logits says what follows target tokens 0 … t; id 0 is padding.

    Args:
        vocab_size: V, of the target.
        dim, depth, embedding_dim: D, of a state; layers in each stack; E, of a word.
        source_vocab_size: of the source, where it has a vocabulary of its own.
        reverse_source: whether the source is read from its end, so that its first words, with
            which the translation begins, are read last (arXiv:1409.3215, section 3.3).
        bidirectional: whether the encoder reads both ways; the memory is then 2D wide, and a
            layer turns both last states into the decoder's first.
        cell, attention, feed, readout, dropout, scheduled_sampling, initializer: as in
            `RecurrentDecoder`. Without attention the context is the encoder's last state.
    """

    variants = {  # "tiny" is for tests, "small" for small corpora; the others are as published
        "tiny": dict(dim=8, depth=2, embedding_dim=6, dropout=0.1),
        "small": dict(dim=256, depth=2, embedding_dim=256, dropout=0.3),
        "sutskever": dict(dim=512, depth=2, embedding_dim=256, dropout=0.5),
        "cho": dict(
            dim=512,
            depth=1,
            embedding_dim=256,
            cell="gru",
            feed="context",
            readout="deep",
            dropout=0.5,
        ),
        "bahdanau": dict(
            dim=512,
            depth=1,
            embedding_dim=256,
            cell="gru",
            bidirectional=True,
            attention="additive",
            feed="context",
            readout="deep",
            dropout=0.5,
        ),
        "luong": dict(
            dim=1000,
            depth=4,
            embedding_dim=1000,
            reverse_source=True,
            attention="bilinear",
            feed="features",
            readout="combined",
            dropout=0.2,
        ),
    }

    def __init__(
        self,
        vocab_size,
        dim,
        depth,
        embedding_dim,
        source_vocab_size=None,
        cell="lstm",
        reverse_source=False,
        bidirectional=False,
        attention=None,
        feed="none",
        readout="state",
        dropout=0.1,
        scheduled_sampling=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, dim=dim, depth=depth, embedding_dim=embedding_dim)
        check_rate(dropout=dropout)
        self.vocab_size, self.source_vocab_size = vocab_size, source_vocab_size
        self.dim, self.depth, self.embedding_dim = dim, depth, embedding_dim
        self.cell, self.attention, self.feed, self.readout = cell, attention, feed, readout
        self.reverse_source, self.bidirectional = reverse_source, bidirectional
        self.dropout, self.scheduled_sampling = dropout, scheduled_sampling
        self.initializer = initializer

        shared = {"dtype": self.dtype_policy}
        self.source_embedding = TokenEmbedding(
            source_vocab_size or vocab_size, embedding_dim, scale=False, name="embedding", **shared
        )
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        self.encoder = [
            make_recurrent(cell, dim, name=f"encoder_{i}", **shared) for i in range(depth)
        ]
        if bidirectional:
            self.encoder = [
                keras.layers.Bidirectional(one, name=one.name, **shared) for one in self.encoder
            ]
        self.decoder = RecurrentDecoder(
            vocab_size,
            dim,
            depth,
            embedding_dim,
            cell=cell,
            attention=attention,
            feed=feed,
            readout=readout,
            dropout=dropout,
            scheduled_sampling=scheduled_sampling,
            initializer=initializer,
            name="decoder",
            **shared,
        )

    def build(self, input_shape):
        self.source_embedding.build((None, None))
        memory_dim = 2 * self.dim if self.bidirectional else self.dim
        for i, layer in enumerate(self.encoder):
            layer.build((None, None, memory_dim if i else self.embedding_dim))
        if self.bidirectional:
            parts = 2 if self.cell == "lstm" else 1
            self.bridges = [
                [build_dense(self, f"bridge_{i}_{j}", memory_dim, self.dim) for j in range(parts)]
                for i in range(self.depth)
            ]
        context_dim = memory_dim if self.attention else self.dim  # else it is the first state
        self.decoder.build((None, None), (None, None, context_dim))

    def call(self, inputs, training=None):
        fixed, moving = self.encode(inputs["source"], training=training)
        return self.decoder(inputs["target"], fixed, moving, training=training)[0]

    def encode(self, source, training=None):
        """(B, S) → what the decoder reads, and what it starts from."""
        mask = ops.not_equal(source, 0)
        x = self.source_embedding(turn(source, mask) if self.reverse_source else source)
        states = []
        for i, layer in enumerate(self.encoder):
            x = self.drop(x, training=training)
            x, *state = layer(x, mask=mask, training=training)  # (B, S, D or 2D)
            states.append(self.bridge(i, state) if self.bidirectional else state)
        if not self.attention:
            x = states[-1][0][:, None]  # (B, 1, D): the fixed vector
        elif self.reverse_source:
            x = turn(x, mask)
        return self.decoder.prepare(x, mask), self.decoder.start(states, mask)

    def bridge(self, i, state):
        """Of layer i the last states forwards and backwards → the decoder's first."""
        half = len(state) // 2  # h and c of an LSTM
        both = zip(state[:half], state[half:], self.bridges[i], strict=True)
        return [ops.tanh(dense(ops.concatenate([a, b], axis=-1))) for a, b, dense in both]

    def initial_state(self, inputs, max_length):
        """What decoding starts from; a recurrent state needs no room for `max_length`."""
        fixed, moving = self.encode(inputs["source"])
        return {"fixed": fixed, "moving": moving}

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next, and the new state."""
        fixed, moving = state["fixed"], state["moving"]
        logits, _, moving = self.decoder(tokens[:, None], fixed, moving, index=index)
        return logits[:, 0], {"fixed": fixed, "moving": moving}

    def attention_maps(self, inputs):
        """{"decoder/cross": (B, H, T, S)}; nothing without attention."""
        fixed, moving = self.encode(inputs["source"])
        _, seen, _ = self.decoder(inputs["target"], fixed, moving)
        return {"decoder/cross": seen["weights"]} if seen else {}


def turn(x, mask):
    """Each row (S, …) from its last real position to its first; padding stays behind."""
    place = ops.arange(ops.shape(mask)[1])
    length = ops.sum(ops.cast(mask, place.dtype), axis=1, keepdims=True)
    place = ops.where(place < length, length - 1 - place, place)  # (B, S)
    return ops.take_along_axis(x, place[..., None] if len(x.shape) == 3 else place, axis=1)
