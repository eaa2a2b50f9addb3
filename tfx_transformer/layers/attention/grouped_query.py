"""Grouped-query attention (arXiv:2305.13245): query heads share key and value heads."""

from tfx_transformer.checks import check_divides
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention


class GroupedQueryAttention(MultiHeadAttention):
    """Multi-head attention with fewer key/value heads than query heads, and a smaller cache.

    Arguments and returns as in `multi_head.py`, and:

    Args:
        num_kv_heads: G; divides `num_heads`. 1 gives multi-query attention (arXiv:1911.02150).
    """

    def __init__(self, dim, num_heads, num_kv_heads=1, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        check_divides(num_kv_heads=num_kv_heads, num_heads=num_heads)
        self.num_kv_heads = num_kv_heads
