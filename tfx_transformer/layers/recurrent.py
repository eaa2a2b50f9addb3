"""A decoder that remembers by recurrence and, if asked, looks back by attention."""

import keras
from keras import ops

from tfx_transformer.checks import check_choice, check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers.attention import ATTENTION
from tfx_transformer.layers.attention.dot_product import merge_heads, weighted_sum
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.embedding import TokenEmbedding
from tfx_transformer.registry import Registry

CELL = Registry("cell", {"gru": keras.layers.GRU, "lstm": keras.layers.LSTM})


def make_recurrent(cell, dim, **options):
    """A GRU or LSTM that returns all its outputs, then its last state."""
    return CELL.make(cell, units=dim, return_sequences=True, return_state=True, **options)


class RecurrentDecoder(Configured, keras.layers.Layer):
    """Says what comes next, word after word: tokens (B, T) → logits (B, T, V).

        word → LSTM or GRU × depth → state (B, T, D), which attends to the memory → context
        state, context, word → features → logits

    Args:
        vocab_size: V.
        dim, depth, embedding_dim: D, of a state; layers; E, of a word.
        cell: a name in CELL.
        attention: None, a name in ATTENTION, or a dict of its options. Without it the context is
            one and the same vector at every position.
        feed: what enters the first layer beside the word: "none"; the "context" that the state
            before it reads (arXiv:1409.0473); or "features", those of the position before
            (input feeding, arXiv:1508.04025).
        readout: what features are: the "state"; "combined", tanh W[context; state]; or "deep",
            [state; context; word].
        hard: whether one position is looked at, drawn in training, instead of the weighted sum.
        gate: whether the query scales the context by a number from 0 to 1 (arXiv:1502.03044,
            section 4.2.1).
        dropout: on words and features; between layers, with one mask for all positions.
        scheduled_sampling: how often, in training, its own word stands for the true one
            (arXiv:1506.03099).
        initializer: of the dense kernels.

    Call arguments:
        tokens: (B, T) ids; 0 is padding.
        fixed: what `prepare` made of the memory.
        moving: what `start` made of the first states, or the last call returned.
        index: the position of the first token.

    Returns:
        The logits (B, T, V), a dict with the "weights" (B, H, T, S) by which the context was
        summed, if there is attention, and with the "soft" ones they were drawn from, if it is
        hard; and the moving state after the last token.
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
                f"attention={attention!r} must be read by something: "
                'set readout="combined", readout="deep" or feed="context"'
            )
        if hard and not attention:
            raise ValueError("hard=True must have an attention to harden; got attention=None")
        if gate and not attention:
            raise ValueError("gate=True must have an attention to scale; got attention=None")
        self.vocab_size, self.dim, self.depth = vocab_size, dim, depth
        self.embedding_dim, self.cell, self.attention = embedding_dim, cell, attention
        self.feed, self.readout, self.hard, self.gate = feed, readout, hard, gate
        self.dropout, self.scheduled_sampling = dropout, scheduled_sampling
        self.initializer = initializer

        shared = {"dtype": self.dtype_policy}
        self.embedding = TokenEmbedding(
            vocab_size, embedding_dim, scale=False, name="embedding", **shared
        )
        self.cells = [make_recurrent(cell, dim, name=f"cell_{i}", **shared) for i in range(depth)]
        self.drop = keras.layers.Dropout(dropout, name="drop", **shared)
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, tokens_shape, memory_shape):
        """The memory is (B, S, M)."""
        memory_dim = memory_shape[-1]
        self.features_dim = {
            "state": self.dim,
            "combined": self.dim,
            "deep": self.dim + memory_dim + self.embedding_dim,
        }[self.readout]
        fed = {"none": 0, "context": memory_dim, "features": self.features_dim}[self.feed]
        self.embedding.build(tokens_shape)
        for i, layer in enumerate(self.cells):
            layer.build((None, None, self.dim if i else self.embedding_dim + fed))
        if self.attention:
            kind = ATTENTION.find(self.attention)[0].__name__
            width = self.dim if kind == "AdditiveAttention" else memory_dim
            self.attend = ATTENTION.make(
                self.attention, dim=width, num_heads=1, dtype=self.dtype_policy, name="attend"
            )
            self.attend.build((None, None, self.dim), memory_shape)
        if self.gate:
            self.open = build_dense(self, "open", self.dim, 1)
        if self.readout == "combined":
            self.combine = build_dense(self, "combine", memory_dim + self.dim, self.dim)
        self.head = build_dense(self, "head", self.features_dim, self.vocab_size)

    def prepare(self, memory, mask):
        """What stays the same: the memory (B, S, M), read once, and where it is real (B, S)."""
        if self.attention:
            memory = self.attend.prepare(memory)
        return {"memory": memory, "source_mask": mask}

    def start(self, states, mask):
        """What moves, from the first states of each layer, [[(B, D), …]] × depth."""
        batch_size = ops.shape(mask)[0]
        moving = {"states": [list(state) for state in states]}
        moving["features"] = ops.zeros((batch_size, self.features_dim), self.compute_dtype)
        if self.attention:
            moving["coverage"] = ops.zeros(ops.shape(mask), "float32")
        return moving

    def call(self, tokens, fixed, moving, index=0, training=None):
        words = self.drop(self.embedding(tokens), training=training)
        draws = self.draw(tokens, fixed, training)
        must_wait = self.feed == "features" or (self.feed == "context" and self.attention)
        if (must_wait or "own" in draws) and tokens.shape[1] != 1:
            features, seen, moving = self.one_by_one(words, fixed, moving, index, draws)
        else:
            features, seen, moving = self.advance(words, fixed, moving, index, draws)
        logits = apply_dense(self.head, self.drop(features, training=training))
        return logits, seen, moving

    def draw(self, tokens, fixed, training):
        """The random numbers of a training step; inside a loop not every backend can draw them."""
        draws, seed = {}, self.seed_generator
        batch_size, length = ops.shape(tokens)
        if training and self.dropout and self.depth > 1:
            ones = ops.ones((self.depth - 1, batch_size, 1, self.dim), self.compute_dtype)
            draws["masks"] = keras.random.dropout(ones, self.dropout, seed=seed)
        if training and self.scheduled_sampling:
            chance = keras.random.uniform((batch_size, length), seed=seed)
            is_first = ops.arange(length) == 0
            draws["own"] = ops.logical_and(chance < self.scheduled_sampling, ~is_first)
        if training and self.hard:
            shape = (batch_size, length, self.attend.num_heads, ops.shape(fixed["source_mask"])[1])
            chance = keras.random.uniform(shape, 1e-9, 1.0, seed=seed)
            draws["noise"] = -ops.log(-ops.log(chance))  # Gumbel: its argmax is a draw
        return draws

    def advance(self, words, fixed, moving, index, draws):
        """Words (B, T, E) → features (B, T, ·), what was seen, and the moving state.

        T is 1 where a position must wait for the one before it.
        """
        states, x, context, seen = moving["states"], words, None, {}
        if self.feed == "context":
            query = states[-1][0][:, None]  # (B, 1, D)
            context, seen = self.look(query, fixed, index, draws)
            x = ops.concatenate([words, like(words, context)], axis=-1)
        elif self.feed == "features":
            x = ops.concatenate([words, moving["features"][:, None]], axis=-1)

        new_states = []
        for i, (layer, state) in enumerate(zip(self.cells, states, strict=True)):
            if i and "masks" in draws:
                x = x * draws["masks"][i - 1]
            x, state = run(layer, x, state)  # (B, T, D)
            new_states.append(state)
        if self.feed != "context" and self.readout != "state":
            context, seen = self.look(x, fixed, index, draws)

        features = x
        if self.readout == "combined":
            both = ops.concatenate([like(x, context), x], axis=-1)
            features = ops.tanh(apply_dense(self.combine, both))
        elif self.readout == "deep":
            features = ops.concatenate([x, like(x, context), words], axis=-1)
        after = {"states": new_states, "features": features[:, -1]}
        if seen:
            read = ops.sum(ops.mean(seen["weights"], axis=1), axis=1)  # (B, S)
            after["coverage"] = moving["coverage"] + read
        return features, seen, after

    def look(self, query, fixed, index, draws):
        """The query (B, T, D) → its context (B, T, M), and by which weights it was summed."""
        if not self.attention:
            return fixed["memory"], {}
        context, seen = self.read(query, fixed, index, draws)
        if self.gate:
            context = context * ops.sigmoid(apply_dense(self.open, query))
        return context, seen

    def read(self, query, fixed, index, draws):
        """By attention, soft or hard."""
        mask = fixed["source_mask"][:, None, None]
        context, soft, _ = self.attend(query, fixed["memory"], mask, index=index)
        if not self.hard:
            return context, {"weights": soft}
        chance = ops.log(soft + 1e-30)  # (B, H, T, S)
        if "noise" in draws:
            chance = chance + ops.swapaxes(draws["noise"], 1, 2)
        weights = ops.one_hot(ops.argmax(chance, axis=-1), ops.shape(soft)[-1], dtype=soft.dtype)
        context = merge_heads(weighted_sum(weights, fixed["memory"][1]))
        return self.attend.project_output(context), {"weights": weights, "soft": soft}

    def one_by_one(self, words, fixed, moving, index, draws):
        """As `advance`, one position after the other."""

        def body(carry, word):
            before, t = carry["moving"], carry["t"]
            here = {
                name: draw if name == "masks" else ops.take(draw, t[None], axis=1)
                for name, draw in draws.items()
            }
            if "own" in here:
                own = ops.argmax(apply_dense(self.head, before["features"]), axis=-1)
                word = ops.where(here["own"], self.embedding(own), word)
            _, seen, after = self.advance(word[:, None], fixed, before, index + t, here)
            seen = {k: v[:, :, 0] for k, v in seen.items()}
            carry = {"moving": after, "seen": seen, "t": t + 1}
            return carry, carry  # TensorFlow's scan wants outputs of the carry's shapes

        nothing = {}
        if self.attention:
            shape = (ops.shape(words)[0], self.attend.num_heads, ops.shape(fixed["source_mask"])[1])
            names = ("weights", "soft") if self.hard else ("weights",)
            nothing = {name: ops.zeros(shape, "float32") for name in names}
        first = {"moving": moving, "seen": nothing, "t": ops.convert_to_tensor(0, dtype="int32")}
        # words alone: of unknown length, TensorFlow's scan takes no second sequence
        last, every = ops.scan(body, first, ops.moveaxis(words, 1, 0))
        features = ops.moveaxis(every["moving"]["features"], 0, 1)  # (B, T, F)
        seen = {k: ops.transpose(v, (1, 2, 0, 3)) for k, v in every["seen"].items()}  # (B, H, T, S)
        return features, seen, last["moving"]


def run(layer, x, state):
    """A recurrent layer over x (B, T, ·) from a state → (B, T, D) and its last state."""
    if x.shape[1] == 1:  # one step of decoding: no loop
        y, state = layer.cell(x[:, 0], state)
        return y[:, None], list(state)
    y, *state = layer(x, initial_state=state)
    return y, state


def like(x, context):
    """A context (B, 1, M), or already (B, T, M), at every position of x (B, T, ·)."""
    return ops.broadcast_to(context, (*ops.shape(x)[:2], context.shape[-1]))
