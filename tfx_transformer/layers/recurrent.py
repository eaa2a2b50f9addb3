"""A recurrent decoder (GRU or LSTM) with optional attention to the encoder output."""

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Serializable
from tfx_transformer.layers.attention import ATTENTION
from tfx_transformer.layers.attention.base import AttendMixin, pack_results
from tfx_transformer.layers.attention.hard import gumbel_noise, hard_weights
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.layers.embedding import TokenEmbedding
from tfx_transformer.registry import Registry

CELL = Registry("cell", {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM})


def make_recurrent(cell, dim, **options):
    """A GRU or LSTM that returns all its outputs, then its last state."""
    return CELL.make(cell, units=dim, return_sequences=True, return_state=True, **options)


class RecurrentDecoder(AttendMixin, Serializable, keras.layers.Layer):
    """Recurrent decoder: tokens (B, T) → logits of the next tokens (B, T, V).

        token → LSTM or GRU × depth → state (B, T, D), which attends to the memory → context
        state, context, token embedding → features → logits

    Args:
        vocab_size: V.
        dim, depth, embedding_dim: D, of a state; layers; E, of a token embedding.
        cell: a name in CELL.
        attention: None, a name in ATTENTION, or a dict of its options. Without it the context is
            the same vector at every position.
        feed: second input of the first layer: "none"; the "context" attended to from the previous
            state (arXiv:1409.0473); or the "features" of the previous position (input feeding,
            arXiv:1508.04025).
        readout: the features: the "state"; "combined", tanh W[context; state]; or "deep",
            [state; context; token embedding].
        hard: whether to attend to one position, sampled in training, instead of a weighted sum.
        gate: whether the query scales the context by a number from 0 to 1 (arXiv:1502.03044,
            section 4.2.1).
        dropout: on embeddings and features; between layers, with one mask for all positions.
        scheduled_sampling: fraction of input tokens, in training, that are replaced by the model's
            own prediction (arXiv:1506.03099).
        initializer: of the dense kernels.

    Call arguments:
        tokens: (B, T) ids; 0 is padding.
        constant: the memory, from `make_constant`.
        carry: the state, from `make_carry` or from the previous call.
        index: the position of the first token.
        return_attention_scores: whether to return the attention scores too.

    Returns:
        The logits (B, T, V) and the new carry; with `return_attention_scores` the scores between
        them: a dict, empty without attention, of the "weights" (B, H, T, S) and, with `hard`, the
        "soft" weights from which they were sampled. `attend` always returns these three.
    """

    def __init__(
        self,
        vocab_size,
        dim,
        depth,
        embedding_dim,
        cell="lstm",
        attention=None,
        feed="none",
        readout="state",
        hard=False,
        gate=False,
        dropout=0.0,
        scheduled_sampling=0.0,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(autocast=False, **kwargs)  # the coverage stays in float32
        check_positive(vocab_size=vocab_size, dim=dim, depth=depth, embedding_dim=embedding_dim)
        check_choice("none", "context", "features", feed=feed)
        check_choice("state", "combined", "deep", readout=readout)
        check_rate(dropout=dropout, scheduled_sampling=scheduled_sampling)
        if attention and readout == "state" and feed != "context":
            raise ValueError(
                f"attention={attention!r} must be used: "
                'set readout="combined", readout="deep" or feed="context"'
            )
        for name, needs_attention in (("hard", hard), ("gate", gate)):
            if needs_attention and not attention:
                raise ValueError(f"{name}=True needs an attention; got attention=None")

        shared = {"dtype": self.dtype_policy}
        self.embedding = TokenEmbedding(
            vocab_size, embedding_dim, scale=False, name="embedding", **shared
        )
        self.cells = [make_recurrent(cell, dim, name=f"cell_{i}", **shared) for i in range(depth)]
        self.drop = Dropout(dropout, name="drop", **shared)
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, tokens_shape, memory_shape):
        """The memory is (B, S, M)."""
        memory_dim = memory_shape[-1]
        self.features_dim = {
            "state": self.dim,
            "combined": self.dim,
            "deep": self.dim + memory_dim + self.embedding_dim,
        }[self.readout]
        feed_dim = {"none": 0, "context": memory_dim, "features": self.features_dim}[self.feed]
        self.embedding.build(tokens_shape)
        for i, layer in enumerate(self.cells):
            layer.build((None, None, self.dim if i else self.embedding_dim + feed_dim))
        if self.attention:
            kind = ATTENTION.find(self.attention)[0].__name__
            width = self.dim if kind == "AdditiveAttention" else memory_dim
            self.attention_layer = ATTENTION.make(
                self.attention, dim=width, num_heads=1, dtype=self.dtype_policy, name="attention"
            )
            self.attention_layer.build((None, None, self.dim), memory_shape)
        if self.gate:
            self.gate_layer = build_dense(self, "gate", self.dim, 1)
        if self.readout == "combined":
            self.combine = build_dense(self, "combine", memory_dim + self.dim, self.dim)
        self.head = build_dense(self, "head", self.features_dim, self.vocab_size)

    def make_constant(self, memory, mask):
        """The constant state, from the memory (B, S, M) and its padding mask (B, S)."""
        if self.attention:
            memory = self.attention_layer.precompute(memory)
        return {"memory": memory, "source_mask": mask}

    def make_carry(self, states, mask):
        """The first carry, from the first states of each layer, [[(B, D), …]] × depth."""
        batch_size = ops.shape(mask)[0]
        carry = {"states": [list(state) for state in states]}
        carry["features"] = ops.zeros((batch_size, self.features_dim), self.compute_dtype)
        if self.attention:
            carry["coverage"] = ops.zeros(ops.shape(mask), "float32")
        return carry

    def call(self, tokens, constant, carry, index=0, return_attention_scores=False, training=None):
        embedded = self.drop(self.embedding(tokens), training=training)
        noise = self.sample_noise(tokens, constant, training)
        sequential = self.feed == "features" or (self.feed == "context" and self.attention)
        loop = (sequential or "use_prediction" in noise) and tokens.shape[1] != 1
        forward = self.forward_by_position if loop else self.forward
        features, scores, carry = forward(embedded, constant, carry, index, noise)
        logits = apply_dense(self.head, self.drop(features, training=training))
        return pack_results(logits, scores, carry, return_attention_scores)

    def sample_noise(self, tokens, constant, training):
        """All random numbers of a training step: some backends cannot sample inside a loop."""
        noise, seed = {}, self.seed_generator
        batch_size, length = ops.shape(tokens)
        if training and self.dropout and self.depth > 1:
            ones = ops.ones((self.depth - 1, batch_size, 1, self.dim), self.compute_dtype)
            noise["dropout"] = keras.random.dropout(ones, self.dropout, seed=seed)
        if training and self.scheduled_sampling:
            uniform = keras.random.uniform((batch_size, length), seed=seed)
            is_first = ops.arange(length) == 0
            noise["use_prediction"] = ops.logical_and(uniform < self.scheduled_sampling, ~is_first)
        if training and self.hard:
            sizes = self.attention_layer.num_heads, ops.shape(constant["source_mask"])[1]
            noise["gumbel"] = gumbel_noise((batch_size, length, *sizes), seed)
        return noise

    def forward(self, embedded, constant, carry, index, noise):
        """Embeddings (B, T, E) → features (B, T, ·), attention scores and the new carry.

        T is 1 if a position depends on the output of the previous one.
        """
        states, x, context, scores = carry["states"], embedded, None, {}
        if self.feed == "context":
            query = states[-1][0][:, None]  # (B, 1, D)
            context, scores = self.attend_to_memory(query, constant, index, noise)
            x = ops.concatenate([embedded, repeat_context(context, embedded)], axis=-1)
        elif self.feed == "features":
            x = ops.concatenate([embedded, carry["features"][:, None]], axis=-1)

        new_states = []
        for i, (layer, state) in enumerate(zip(self.cells, states, strict=True)):
            if i and "dropout" in noise:
                x = x * noise["dropout"][i - 1]
            x, state = run_recurrent(layer, x, state)  # (B, T, D)
            new_states.append(state)
        if self.feed != "context" and self.readout != "state":
            context, scores = self.attend_to_memory(x, constant, index, noise)

        features = x
        if self.readout == "combined":
            both = ops.concatenate([repeat_context(context, x), x], axis=-1)
            features = ops.tanh(apply_dense(self.combine, both))
        elif self.readout == "deep":
            features = ops.concatenate([x, repeat_context(context, x), embedded], axis=-1)
        new_carry = {"states": new_states, "features": features[:, -1]}
        if "coverage" in carry:
            total = ops.sum(ops.mean(scores["weights"], axis=1), axis=1)  # (B, S)
            new_carry["coverage"] = carry["coverage"] + total
        return features, scores, new_carry

    def attend_to_memory(self, query, constant, index, noise):
        """Queries (B, T, D) → contexts (B, T, M) and attention scores."""
        memory = constant["memory"]
        if not self.attention:
            return memory, {}
        attention = self.attention_layer
        context, weights, _ = attention.attend(query, memory, constant["source_mask"], index=index)
        scores = {"weights": weights}
        if self.hard:
            gumbel = ops.swapaxes(noise["gumbel"], 1, 2) if "gumbel" in noise else None
            scores = {"weights": hard_weights(weights, gumbel), "soft": weights}
            context = attention.sum_values(scores["weights"], memory[1], training=False)
        if self.gate:
            context = context * ops.sigmoid(apply_dense(self.gate_layer, query))
        return context, scores

    def forward_by_position(self, embedded, constant, carry, index, noise):
        """As `forward`, in a loop over positions."""

        def body(loop, x):
            t = loop["t"]
            noise_t = {
                name: value if name == "dropout" else ops.take(value, t[None], axis=1)
                for name, value in noise.items()
            }
            if "use_prediction" in noise:
                logits = apply_dense(self.head, loop["carry"]["features"])
                prediction = self.embedding(ops.argmax(logits, axis=-1))
                x = ops.where(noise_t["use_prediction"], prediction, x)
            _, scores, carry = self.forward(x[:, None], constant, loop["carry"], index + t, noise_t)
            scores = {name: value[:, :, 0] for name, value in scores.items()}
            loop = {"carry": carry, "scores": scores, "t": t + 1}
            return loop, loop  # TensorFlow's scan needs outputs of the carry's shapes

        scores = {}
        if self.attention:
            sizes = self.attention_layer.num_heads, ops.shape(constant["source_mask"])[1]
            zeros = ops.zeros((ops.shape(embedded)[0], *sizes), "float32")
            scores = {name: zeros for name in (("weights", "soft") if self.hard else ("weights",))}
        first = {"carry": carry, "scores": scores, "t": ops.convert_to_tensor(0, dtype="int32")}
        # one sequence only: TensorFlow's scan takes no second one of unknown length
        last, steps = ops.scan(body, first, ops.moveaxis(embedded, 1, 0))
        features = ops.moveaxis(steps["carry"]["features"], 0, 1)  # (B, T, ·)
        scores = {
            name: ops.transpose(value, (1, 2, 0, 3))  # (B, H, T, S)
            for name, value in steps["scores"].items()
        }
        return features, scores, last["carry"]


def run_recurrent(layer, x, state):
    """A recurrent layer over x (B, T, ·) from a state → (B, T, D) and its last state."""
    if x.shape[1] == 1:  # one step of decoding: no loop
        y, state = layer.cell(x[:, 0], state)
        return y[:, None], list(state)
    y, *state = layer(x, initial_state=state)
    return y, state


def repeat_context(context, x):
    """A context (B, 1, M), or already (B, T, M), for every position of x (B, T, ·)."""
    return ops.broadcast_to(context, (*ops.shape(x)[:2], context.shape[-1]))
