"""Hard attention (arXiv:1502.03044, section 4.1): a query looks at one position only."""

import keras
from keras import ops

from tfx_transformer.layers.attention.dot_product import masked_softmax
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention


class HardAttention(MultiHeadAttention):
    """Multi-head attention whose weights are one 1 among zeros.

    In training the position is drawn from the softmax, and gradients pass as if the weights had
    been the softmax itself (straight-through, arXiv:1308.3432); otherwise the most likely position
    is taken. Arguments and returns as in `multi_head.py`, and:

    Args:
        seed: of the draws; None for a different one each time.
    """

    def __init__(self, dim, num_heads, seed=None, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def weigh(self, scores, attention_mask, index, training):
        soft = masked_softmax(scores, attention_mask)
        chosen = self.draw(soft) if training else ops.argmax(soft, axis=-1)  # (B, H, T)
        hard = ops.one_hot(chosen, ops.shape(soft)[-1], dtype=soft.dtype)
        if attention_mask is not None:
            hard = ops.where(attention_mask, hard, 0.0)  # nothing to see, nothing chosen
        return soft - ops.stop_gradient(soft) + hard

    def draw(self, soft):
        """One key from each distribution: (B, H, T, S) → (B, H, T)."""
        logits = ops.log(ops.reshape(soft, (-1, ops.shape(soft)[-1])) + 1e-30)
        chosen = keras.random.categorical(logits, 1, dtype="int32", seed=self.seed_generator)
        return ops.reshape(chosen, ops.shape(soft)[:-1])
