"""Discrete VAE: images as a grid of tokens of a learned codebook (arXiv:2102.12092, section 2.1).

    image → convolutions → logits of K codes per cell → token
    token → codebook → convolutions → image

In training a cell is a mixture of codes, by Gumbel-softmax (arXiv:1611.01144), whose temperature
falls from 1 to 1/16; the weight of the KL divergence to uniform codes grows from 0. Both follow a
cosine, as in the paper. Unlike there, networks are small; a token depends on its own pixels alone,
so that equal parts of an image have equal tokens, which a small model learns sooner; the first
codes are parts of images (`spread_codes`), so that none is left unused; and the pixels have a
Laplace distribution of fixed scale: a learned one would become 0 for drawings, which have no noise.
"""

import math

import keras
import numpy as np
from keras import ops

from tfx_transformer.checks import check_above_zero, check_divides, check_positive
from tfx_transformer.config import Serializable
from tfx_transformer.models.base import check_images

LAST_TEMPERATURE = 1 / 16
MARGIN = 20.0  # between the first logits of a code and of the nearest other one


class DiscreteVAE(Serializable, keras.Model):
    """Image tokenizer: `encode(images)` → tokens (B, rows, columns), `decode(tokens)` → images.

    A call reconstructs images (B, h, w, 3), whose pixels are -1 to 1. In training it also adds the
    KL divergence as a loss, and counts its updates. `LaplaceLoss` is the other loss.

    Args:
        codebook_size: number K of codes, the size of the image vocabulary.
        dim: channels at the scale of the tokens; half as many at twice the scale.
        depth: residual blocks of the encoder and of the decoder.
        image_size: height and width of the images.
        patch_size: height and width of the pixels of a token; a power of two.
        kl_weight: last weight of the divergence.
        kl_steps: updates in which this weight grows.
        temperature_steps: updates in which the temperature falls.
        straight_through: whether a cell is a single code in training too, whose gradient is that
            of the mixture.
    """

    def __init__(
        self,
        codebook_size: int = 128,
        dim: int = 64,
        depth: int = 2,
        image_size: int = 32,
        patch_size: int = 4,
        kl_weight: float = 4.0,
        kl_steps: int = 500,
        temperature_steps: int = 2000,
        straight_through: bool = False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_positive(codebook_size=codebook_size, dim=dim, depth=depth)
        check_positive(kl_steps=kl_steps, temperature_steps=temperature_steps)
        check_divides(patch_size=patch_size, image_size=image_size)
        check_above_zero(kl_weight=kl_weight)
        if patch_size < 2 or patch_size & (patch_size - 1):
            raise ValueError(f"patch_size must be 2, 4, 8, …; got patch_size={patch_size}")
        widths = [self.dim >> i for i in range(patch_size.bit_length() - 1)]  # from the tokens up
        self.noise = keras.random.SeedGenerator(name="noise")
        self.encoder = keras.Sequential(
            [
                *(self.convolution("Conv2D", width, 2, 2) for width in widths[::-1]),
                *(ResidualConv(dim, depth, 1, dtype=self.dtype_policy) for _ in range(depth)),
                keras.layers.BatchNormalization(momentum=0.9, dtype=self.dtype_policy),
                self.convolution("Conv2D", codebook_size, 1, 1, activation="linear"),
            ],
            name="encoder",
        )
        self.decoder = keras.Sequential(
            [
                *(ResidualConv(dim, depth, dtype=self.dtype_policy) for _ in range(depth)),
                *(self.convolution("Conv2DTranspose", width) for width in widths[1:]),
                self.convolution("Conv2DTranspose", 3, activation="tanh"),
            ],
            name="decoder",
        )

    def convolution(self, kind, filters, size=4, strides=2, activation="relu", **options):
        """A convolution, which halves or doubles height and width if `strides` is 2."""
        options |= {"strides": strides, "padding": "same", "activation": activation}
        return getattr(keras.layers, kind)(filters, size, dtype=self.dtype_policy, **options)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the tokens of an image."""
        return (self.image_size // self.patch_size,) * 2

    def build(self, input_shape=None):
        if self.built:
            return
        self.encoder.build((None, self.image_size, self.image_size, 3))
        self.decoder.build((None, *self.grid, self.dim))
        self.codebook = self.add_weight(
            shape=(self.codebook_size, self.dim),
            initializer=keras.initializers.RandomNormal(stddev=1.0),
            name="codebook",
        )
        self.updates = self.add_weight(
            shape=(), initializer="zeros", dtype="int32", trainable=False, name="updates"
        )

    def spread_codes(self, images, seed=0):
        """The first codes: the features of parts of these images, which differ most (k-means++).

        The logits of a part then are its distances to the codes. Without this few codes are ever
        used: the others are too unlikely to be learned.
        """
        *layers, last = self.encoder.layers
        features = images
        for layer in layers:
            is_norm = isinstance(layer, keras.layers.BatchNormalization)
            features = layer(features, training=True) if is_norm else layer(features)
        features = ops.convert_to_numpy(features).reshape(-1, self.dim).astype("float64")
        codes = spread_points(features, self.codebook_size, np.random.default_rng(seed))
        scale = 2 * MARGIN / median_distance(codes)
        last.kernel.assign((scale * codes.T)[None, None])
        last.bias.assign(-scale / 2 * np.sum(codes**2, axis=1))
        self.codebook.assign((codes - features.mean(axis=0)) / features.std())

    def call(self, images, training=None):
        logits = self.logits(images, training=training)
        if not training:
            return self.decode(ops.argmax(logits, axis=-1))
        temperature, kl_weight = self.schedules()
        self.updates.assign_add(1)
        # loss per pixel and channel, as that of the pixels
        self.add_loss(kl_weight * divergence(logits) / (3 * self.patch_size**2))
        codes = self.sample(logits, temperature)
        return self.decode_codes(ops.matmul(codes, ops.cast(self.codebook, codes.dtype)))

    def logits(self, images, training=None):
        """Images (B, h, w, 3) → logits (B, rows, columns, K) in float32."""
        check_images(images, 3)
        return ops.cast(self.encoder(images, training=training), "float32")

    def encode(self, images):
        """Images (B, h, w, 3) → the most likely tokens (B, rows, columns)."""
        return ops.argmax(self.logits(images), axis=-1)

    def decode(self, tokens):
        """Tokens (B, rows, columns) → images (B, h, w, 3), pixels -1 to 1."""
        return self.decode_codes(ops.take(self.codebook, tokens, axis=0))

    def decode_codes(self, codes):
        """Vectors of codes (B, rows, columns, D) → images (B, h, w, 3)."""
        return self.decoder(ops.cast(codes, self.compute_dtype))

    def sample(self, logits, temperature):
        """Gumbel-softmax: random mixtures of the codes (B, rows, columns, K)."""
        uniform = keras.random.uniform(ops.shape(logits), 1e-6, 1.0, seed=self.noise)
        soft = ops.softmax((logits - ops.log(-ops.log(uniform))) / temperature, axis=-1)
        if not self.straight_through:
            return soft
        hard = ops.one_hot(ops.argmax(soft, axis=-1), self.codebook_size, dtype=soft.dtype)
        return hard + soft - ops.stop_gradient(soft)

    def schedules(self):
        """The temperature and the weight of the divergence at this update."""
        step = ops.cast(self.updates, "float32")
        temperature = cosine(step / self.temperature_steps, 1.0, LAST_TEMPERATURE)
        return temperature, cosine(step / self.kl_steps, 0.0, self.kl_weight)


class ResidualConv(Serializable, keras.layers.Layer):
    """Residual block of three convolutions, the first two narrow; the sum is scaled by 1/depth².

    Args:
        dim: channels.
        depth: residual blocks of the network.
        size: height and width of the first two kernels.
    """

    def __init__(self, dim, depth, size=3, **kwargs):
        super().__init__(**kwargs)
        shared = {"padding": "same", "dtype": self.dtype_policy}
        narrow = max(dim // 2, 1)
        self.layers = [
            keras.layers.Conv2D(width, size, **shared)
            for width, size in ((narrow, size), (narrow, size), (dim, 1))
        ]

    def build(self, x_shape):
        for layer in self.layers:
            layer.build(x_shape)
            x_shape = layer.compute_output_shape(x_shape)

    def call(self, x):
        y = x
        for layer in self.layers:
            y = layer(ops.relu(y))
        return x + y / self.depth**2


class LaplaceLoss(Serializable, keras.losses.Loss):
    """Negative log-likelihood of pixels per channel, but for a constant: |x − y| / scale.

    Args:
        scale: of the Laplace distribution, in pixels of -1 to 1.
    """

    def __init__(self, scale=0.1, name="laplace", **kwargs):
        super().__init__(name=name, **kwargs)
        check_above_zero(scale=scale)

    def call(self, images, outputs):
        difference = ops.abs(ops.cast(images, "float32") - ops.cast(outputs, "float32"))
        return ops.mean(difference, axis=(1, 2, 3)) / self.scale


def spread_points(points, count, rng):
    """`count` of the points (N, D): each with a probability by its distance² to those before."""
    chosen = [int(rng.integers(len(points)))]
    distance = np.full(len(points), np.inf)
    for _ in range(count - 1):
        distance = np.minimum(distance, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        total = distance.sum()  # 0 if all are chosen
        chosen.append(int(rng.choice(len(points), p=distance / total if total else None)))
    return points[chosen]


def median_distance(points):
    """The median of the squared distances of points (N, D) to their nearest others."""
    lengths = np.sum(points**2, axis=1)
    squares = lengths[:, None] + lengths - 2 * points @ points.T
    return np.median(np.where(squares > 1e-6, squares, np.inf).min(axis=1))


def divergence(logits):
    """Mean KL divergence of the codes of a cell, by logits (…, K), from uniform ones."""
    log_probs = ops.log_softmax(logits, axis=-1)
    entropy = -ops.sum(ops.exp(log_probs) * log_probs, axis=-1)
    return math.log(logits.shape[-1]) - ops.mean(entropy)


def cosine(progress, first, last):
    """From `first` at progress 0 to `last` from progress 1 on, along half a cosine."""
    progress = ops.clip(progress, 0.0, 1.0)
    return last + (first - last) * 0.5 * (1 + ops.cos(math.pi * progress))
