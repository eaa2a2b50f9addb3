"""Hard attention (arXiv:1502.03044, section 4.1): each query attends to one key only."""

import keras
from keras import ops

from tfx_transformer.layers.attention.dot_product import masked_softmax
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention


def gumbel_noise(shape, seed):
    """Noise with which `hard_weights` samples from the softmax (Gumbel-max)."""
    return -ops.log(-ops.log(keras.random.uniform(shape, 1e-9, 1.0, seed=seed)))


def hard_weights(soft, noise=None):
    """Softmax weights (…, S) → one 1 among zeros: the most likely key or, with noise, a sample.

    Rows without an allowed key, all zeros in `soft`, stay zeros.
    """
    chosen = ops.argmax(soft if noise is None else ops.log(soft + 1e-30) + noise, axis=-1)
    hard = ops.one_hot(chosen, ops.shape(soft)[-1], dtype=soft.dtype)
    return ops.where(soft > 0, hard, 0.0)


class HardAttention(MultiHeadAttention):
    """Multi-head attention whose weights are one 1 among zeros.

    In training the key is sampled from the softmax, with the gradients of the softmax weights
    (straight-through, arXiv:1308.3432); otherwise it is the most likely one. Arguments and returns
    as in `multi_head.py`, and:

    Args:
        seed: of the samples; None for a different one each time.
    """

    def __init__(self, dim, num_heads, seed=None, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        self.seed_generator = keras.random.SeedGenerator(seed)

    def normalize_scores(self, scores, attention_mask, index, training):
        soft = masked_softmax(scores, attention_mask)
        noise = gumbel_noise(ops.shape(soft), self.seed_generator) if training else None
        return soft - ops.stop_gradient(soft) + hard_weights(soft, noise)
