"""Dot-product attention (arXiv:1508.04025, equation 8, "dot"), without weights."""

from tfx_transformer.layers.attention.base import Attention


class DotAttention(Attention):
    """Dot-product (Luong) attention: score = qᵀk, per head, without a scale or weights.

    The values are the context itself. Arguments and returns as in `base.py`. Query and context must
    be `dim` wide.
    """

    def build(self, query_shape, context_shape=None):
        self.check_width(query=query_shape, context=context_shape or query_shape)
