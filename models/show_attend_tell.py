"""Captions: a picture as a grid of regions, and a recurrent decoder that looks at them.

    image → convolutions (or a ViT) → regions (B, S, C); their mean → the decoder's first state
    word → LSTM, which reads the regions by attention → logits of the next word

Show, Attend and Tell (arXiv:1502.03044) looks anew at every word, softly, or hard: at one region
only. Show and Tell (arXiv:1411.4555) is the same with attention=None: one and the same look.
"""

import keras
from keras import ops

from tfx_transformer.checks import check_above_zero, check_positive, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers.dense import build_dense
from tfx_transformer.layers.recurrent import RecurrentDecoder
from tfx_transformer.models.regions import REGIONS

MOMENTUM = 0.9  # of the mean log-likelihood, from which a sampled look is told good or bad


class ShowAttendTell(Configured, keras.Model):
    """Tells what a picture shows: {"image": (B, h, w, 3), "target": (B, T)} → logits (B, T, V).

    {"features": (B, S, C)} may stand for the image: what `look` made of it. Position t of the
    logits says what follows target tokens 0 … t; id 0 is padding.

    Args:
        vocab_size: V.
        dim, depth, embedding_dim: of the decoder's states, its layers, and of a word.
        encoder: a name in REGIONS, or a dict of its options.
        image_size: height and width of an image.
        freeze: whether the encoder stays as it is.
        cell, attention, readout, dropout, initializer: as in `RecurrentDecoder`; the paper's words
            are read from state, context and last word, which is "deep".
        hard: whether a look is at one region, drawn in training.
        coverage: of soft attention, λ, the weight of the sum of (1 − what a region got in all)²,
            which asks the model to look everywhere (doubly stochastic attention, equation 14).
        entropy: of hard attention, weight of its entropy (section 4.1).
    """

    variants = {
        "tiny": dict(
            dim=8,
            depth=1,
            embedding_dim=6,
            encoder={"kind": "small", "dims": [4, 6, 5], "strides": [2, 2, 2]},
            image_size=32,
        ),
        "small": dict(dim=256, depth=1, embedding_dim=256, encoder="small", image_size=160),
        "paper": dict(
            dim=1000,
            depth=1,
            embedding_dim=512,
            encoder={"kind": "keras", "backbone": "VGG19"},
            image_size=224,
            freeze=True,
            readout="deep",
            dropout=0.5,
        ),
    }

    def __init__(
        self,
        vocab_size,
        dim,
        depth,
        embedding_dim,
        encoder,
        image_size,
        freeze=False,
        cell="lstm",
        attention="additive",
        hard=False,
        readout="combined",
        coverage=1.0,
        entropy=0.002,
        dropout=0.3,
        initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(vocab_size=vocab_size, dim=dim, depth=depth, image_size=image_size)
        check_rate(dropout=dropout)
        for name, weight in (("coverage", coverage), ("entropy", entropy)):
            if weight:
                check_above_zero(**{name: weight})
        self.vocab_size, self.dim, self.depth = vocab_size, dim, depth
        self.embedding_dim, self.encoder, self.image_size = embedding_dim, encoder, image_size
        self.freeze, self.cell, self.attention, self.hard = freeze, cell, attention, hard
        self.readout, self.coverage, self.entropy = readout, coverage, entropy
        self.dropout, self.initializer = dropout, initializer

        shared = {"dtype": self.dtype_policy}
        self.regions = REGIONS.make(encoder, **shared)  # a backbone's name is its own
        self.regions.trainable = not freeze
        self.decoder = RecurrentDecoder(
            vocab_size,
            dim,
            depth,
            embedding_dim,
            cell=cell,
            attention=attention,
            feed="context",
            readout=readout,
            hard=hard,
            gate=attention is not None,
            dropout=dropout,
            initializer=initializer,
            name="decoder",
            **shared,
        )

    def get_config(self):
        """A saved model holds its encoder's weights: it does not ask again for their file."""
        config = super().get_config()
        if isinstance(self.encoder, dict):
            config["encoder"].pop("weights", None)
        return config

    def build(self, input_shape):
        self.regions.build((None, self.image_size, self.image_size, 3))
        width = self.regions.dim
        parts = 2 if self.cell == "lstm" else 1
        self.first = [
            [build_dense(self, f"first_{i}_{j}", width, self.dim) for j in range(parts)]
            for i in range(self.depth)
        ]
        self.decoder.build((None, None), (None, None, width))
        self.baseline = self.add_weight(
            shape=(), initializer="zeros", trainable=False, autocast=False, name="baseline"
        )

    def call(self, inputs, training=None):
        fixed, moving = self.encode(inputs, training=training)
        target = inputs["target"]
        logits, seen, _ = self.decoder(target, fixed, moving, training=training)
        if training and self.hard:
            self.add_loss(self.unlucky(logits, seen, target))
        elif training and seen:
            self.add_loss(self.coverage * self.uneven(seen["weights"], target))
        return logits

    def grid(self):
        """Rows and columns of the regions."""
        return self.regions.grid(self.image_size)

    def look(self, image, training=None):
        """(B, h, w, 3) → regions (B, S, C)."""
        return self.regions(image, training=training and not self.freeze)

    def encode(self, inputs, training=None):
        """What the decoder reads, and what it starts from."""
        if "features" in inputs:
            regions = ops.cast(inputs["features"], self.compute_dtype)
        else:
            regions = self.look(inputs["image"], training=training)
        mean = ops.mean(regions, axis=1)
        states = [[ops.tanh(dense(mean)) for dense in layer] for layer in self.first]
        mask = ops.ones(ops.shape(regions)[:2], "bool")
        memory = regions if self.attention else mean[:, None]
        return self.decoder.prepare(memory, mask), self.decoder.start(states, mask)

    def uneven(self, weights, target):
        """How far the regions (B, H, T, S) are from getting 1 each, over all words, for a word.

        The paper adds it to the loss of a whole caption; here a loss is the mean over words.
        """
        real = ops.cast(ops.not_equal(target, 0), weights.dtype)  # (B, T)
        got = ops.sum(weights * real[:, None, :, None], axis=2)  # (B, H, S)
        caption = ops.max(real, axis=1)[:, None, None]  # 0 in a row that only fills the batch
        return ops.sum(caption * (1.0 - got) ** 2) / ops.maximum(ops.sum(real), 1.0)

    def unlucky(self, logits, seen, target):
        """What teaches a hard look: the log-likelihood of the words that followed, as a reward.

        Its moving average is taken off, and an entropy is added, so that it varies less (section
        4.1, equations 11 and 12); the paper also takes the soft look for half of the pictures,
        which is left out. The last word's successor is not known here; it gives no reward.
        """
        following = target[:, 1:]
        real = ops.cast(ops.not_equal(following, 0), "float32")  # (B, T − 1)
        logits = ops.cast(logits[:, :-1], "float32")
        nats = keras.losses.sparse_categorical_crossentropy(following, logits, from_logits=True)
        reward = ops.stop_gradient(-ops.sum(nats * real, axis=1))  # (B,)
        captions = ops.max(real, axis=1)  # (B,); 0 in a row that only fills the batch
        usual = ops.sum(reward * captions) / ops.maximum(ops.sum(captions), 1.0)
        self.baseline.assign(MOMENTUM * self.baseline + (1 - MOMENTUM) * usual)

        soft = seen["soft"][:, :, :-1]  # (B, H, T − 1, S)
        log_soft = ops.log(soft + 1e-9)
        drawn = ops.sum(seen["weights"][:, :, :-1] * log_soft, axis=(1, 3))  # (B, T − 1)
        entropy = -ops.sum(soft * log_soft, axis=(1, 3))
        advantage = (reward - self.baseline)[:, None]
        gain = ops.sum((advantage * drawn + self.entropy * entropy) * real)
        return -gain / ops.maximum(ops.sum(real), 1.0)

    def initial_state(self, inputs, max_length):
        """What decoding starts from; a recurrent state needs no room for `max_length`."""
        fixed, moving = self.encode(inputs)
        return {"fixed": fixed, "moving": moving}

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next, and the new state."""
        fixed, moving = state["fixed"], state["moving"]
        logits, _, moving = self.decoder(tokens[:, None], fixed, moving, index=index)
        return logits[:, 0], {"fixed": fixed, "moving": moving}

    def attention_maps(self, inputs):
        """{"decoder/cross": (B, H, T, S)}; nothing without attention."""
        fixed, moving = self.encode(inputs)
        _, seen, _ = self.decoder(inputs["target"], fixed, moving)
        return {"decoder/cross": seen["weights"]} if seen else {}
