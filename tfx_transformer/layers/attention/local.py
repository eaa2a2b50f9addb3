"""Local attention (arXiv:1508.04025, section 3.2, local-m)."""

from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention
from tfx_transformer.layers.masks import combine_masks, local_mask


class LocalAttention(MultiHeadAttention):
    """Multi-head attention from query t to keys t − window//2 … t + window//2.

    Arguments and returns as in `multi_head.py`, and:

    Args:
        window: number of keys per query; odd, with the query in the middle.
    """

    def __init__(self, dim, num_heads, window=21, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        check_positive(window=window)
        if window % 2 == 0:
            raise ValueError(f"window must be odd; got window={window}")

    def normalize_scores(self, scores, attention_mask, index, training):
        band = local_mask(*ops.shape(scores)[2:], window=self.window, start=index)
        mask = combine_masks(attention_mask, band)
        return super().normalize_scores(scores, mask, index, training)
