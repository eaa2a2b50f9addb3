"""Show, Attend and Tell: image captioning by a recurrent decoder with attention (arXiv:1502.03044).

    image → convolutions (or a ViT) → features (B, S, C); their mean → the decoder's first state
    token → LSTM, with attention to the features → logits of the next token

Attention is soft, or hard: to one region only. attention=None is Show and Tell (arXiv:1411.4555):

    image → mean of the features → LSTM, once, before the first token
    token → LSTM → logits of the next token
"""

from typing import Any, Literal

import keras
from keras import ops

from tfx_transformer.checks import check_above_zero
from tfx_transformer.layers.dense import apply_dense, build_dense
from tfx_transformer.layers.recurrent import RecurrentDecoder
from tfx_transformer.models.base import Published, RecurrentModel, check_images
from tfx_transformer.models.image_encoders import IMAGE_ENCODERS
from tfx_transformer.runtime import mean_over_replicas

MOMENTUM = 0.9  # of the baseline, the moving average of the reward


class ShowAttendTell(RecurrentModel):
    """Captioning model: {"image": (B, h, w, 3), "target": (B, T)} → logits (B, T, V).

    {"features": (B, S, C)}, from `encode_image`, may replace the image. Pixels are -1 to 1, the
    normalization "half". Position t of the logits predicts the token after target tokens 0 … t;
    id 0 is padding.

    Args:
        vocab_size: size V of the vocabulary.
        dim: width of a decoder state.
        depth: number of recurrent layers of the decoder.
        embedding_dim: width of a token embedding.
        encoder: image encoder: a name in IMAGE_ENCODERS, or a dict of its options.
        image_size: height and width of the images.
        freeze: whether the image encoder is not trained.
        cell: kind of recurrent layer, "lstm" or "gru".
        attention: attention to the features: None, a name in ATTENTION, or a dict of its options.
        hard: whether to attend to one region, sampled in training, instead of a weighted sum.
        readout: features that predict the next token: the decoder's "state"; "combined", of state
            and context; or "deep", of state, context and token embedding, as in the paper.
            Without attention it is the state.
        coverage: weight of a loss that makes soft attention cover all regions (doubly stochastic
            attention, equation 14).
        entropy: weight of the entropy of hard attention in its loss (section 4.1).
        dropout: dropout rate of embeddings, between layers and of features.
        initializer: Keras initializer of the dense kernels.
    """

    published = Published("1502.03044, 1411.4555", {"vocab_size": 4000})
    variants = {
        "test": dict(
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
        vocab_size: int,
        dim: int,
        depth: int,
        embedding_dim: int,
        encoder: str | dict[str, Any],
        image_size: int,
        freeze: bool = False,
        cell: Literal["lstm", "gru"] = "lstm",
        attention: str | dict[str, Any] | None = "additive",
        hard: bool = False,
        readout: Literal["state", "combined", "deep"] = "combined",
        coverage: float = 1.0,
        entropy: float = 0.002,
        dropout: float = 0.3,
        initializer: str | dict[str, Any] = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        for name, weight in (("coverage", coverage), ("entropy", entropy)):
            if weight:
                check_above_zero(**{name: weight})

        self.image_encoder = IMAGE_ENCODERS.make(
            encoder, name="image_encoder", dtype=self.dtype_policy
        )
        self.image_encoder.trainable = not freeze
        kinds = {"feed": "context", "gate": True} if attention else {"readout": "state"}
        self.decoder = self.make(RecurrentDecoder, name="decoder", **kinds)

    def get_config(self):
        """Without the encoder's weights file: a saved model contains the weights."""
        config = super().get_config()
        if isinstance(self.encoder, dict):
            config["encoder"].pop("weights", None)
            if config["encoder"].get("kind") == "keras_hub":  # a preset has weights too
                own = self.image_encoder.get_config()
                keys = ("backbone", "options", "scale", "offset")
                config["encoder"] |= {key: own[key] for key in keys}
        return config

    def input_shapes(self):
        return {"image": (None, self.image_size, self.image_size, 3), "target": (None, None)}

    def build_layers(self):
        self.image_encoder.build(self.input_shapes()["image"])
        width = self.image_encoder.dim
        if self.attention:
            self.first_state = self.build_first_states("first_state", width)
        else:
            self.image_embedding = build_dense(self, "image_embedding", width, self.embedding_dim)
        self.decoder.build((None, None), (None, None, width))
        self.baseline = self.add_weight(
            shape=(), initializer="zeros", trainable=False, autocast=False, name="baseline"
        )

    def layer_groups(self):
        return self.image_encoder.layer_groups()  # the decoder is not pretrained

    def call(self, inputs, training=None):
        constant, carry = self.encode(inputs, training=training)
        target = inputs["target"]
        logits, scores, _ = self.decoder.attend(target, constant, carry, training=training)
        if training and self.hard:
            self.add_loss(self.policy_gradient_loss(logits, scores, target))
        elif training and scores:
            self.add_loss(self.coverage * self.coverage_loss(scores["weights"], target))
        return logits

    def grid(self):
        """Rows and columns of the features."""
        return self.image_encoder.grid(self.image_size, self.image_size)

    def encode_image(self, image, training=None):
        """(B, h, w, 3) → features (B, S, C)."""
        check_images(image, 3)
        return self.image_encoder(image, training=training and not self.freeze)

    def encode(self, inputs, training=None):
        """Encode the image → the decoder's constant state and first carry."""
        if "features" in inputs:
            features = ops.cast(inputs["features"], self.compute_dtype)
        else:
            features = self.encode_image(inputs["image"], training=training)
        mean = ops.mean(features, axis=1)  # (B, C)
        mask = ops.ones(ops.shape(features)[:2], "bool")
        constant = self.decoder.make_constant(features, mask)
        if self.attention:
            states = [[ops.tanh(dense(mean)) for dense in layer] for layer in self.first_state]
            return constant, self.decoder.make_carry(states, mask)
        image = apply_dense(self.image_embedding, mean[:, None])  # (B, 1, E), as a first token
        zeros = ops.zeros((ops.shape(features)[0], self.dim), self.compute_dtype)
        states = [[zeros] * (2 if self.cell == "lstm" else 1)] * self.depth
        carry = self.decoder.make_carry(states, mask)
        return constant, self.decoder.forward(image, constant, carry, 0, {})[2]

    def coverage_loss(self, weights, target):
        """Sum over regions of (1 − total attention weight)², divided by the number of tokens.

        weights: (B, H, T, S). The paper adds it to the loss of a caption, a sum over tokens; here a
        loss is a mean over tokens.
        """
        real = ops.cast(ops.not_equal(target, 0), weights.dtype)  # (B, T)
        total = ops.sum(weights * real[:, None, :, None], axis=2)  # (B, H, S)
        captions = ops.max(real, axis=1)[:, None, None]  # 0 in a row of padding
        return ops.sum(captions * (1.0 - total) ** 2) / batch_count(real)

    def policy_gradient_loss(self, logits, scores, target):
        """REINFORCE loss of hard attention: the reward is the log-likelihood of the next tokens.

        A moving average of the reward is subtracted and the entropy is added, to reduce variance
        (section 4.1, equations 11 and 12). The paper also uses soft attention for half of the
        images; we do not. The token after the last is not known here and gives no reward.
        """
        following = target[:, 1:]
        real = ops.cast(ops.not_equal(following, 0), "float32")  # (B, T − 1)
        logits = ops.cast(logits[:, :-1], "float32")
        nats = keras.losses.sparse_categorical_crossentropy(following, logits, from_logits=True)
        reward = ops.stop_gradient(-ops.sum(nats * real, axis=1))  # (B,)
        captions = ops.max(real, axis=1)  # (B,), 0 in a row of padding
        mean = mean_over_replicas(ops.sum(reward * captions)) / batch_count(captions)
        self.baseline.assign(MOMENTUM * self.baseline + (1 - MOMENTUM) * mean)

        soft = scores["soft"][:, :, :-1]  # (B, H, T − 1, S)
        log_soft = ops.log(soft + 1e-9)
        log_sampled = ops.sum(scores["weights"][:, :, :-1] * log_soft, axis=(1, 3))  # (B, T − 1)
        entropy = -ops.sum(soft * log_soft, axis=(1, 3))
        advantage = (reward - self.baseline)[:, None]
        gain = ops.sum((advantage * log_sampled + self.entropy * entropy) * real)
        return -gain / batch_count(real)


def batch_count(is_real):
    """The number of ones in a batch; on several replicas their mean, as Keras averages losses."""
    return ops.maximum(mean_over_replicas(ops.sum(is_real)), 1.0)
