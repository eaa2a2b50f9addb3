"""Dot-product attention as in arXiv:1508.04025, equation 8, "dot": nothing is learned."""

from tfx_transformer.layers.attention.base import Attention


class DotAttention(Attention):
    """score = qᵀk, per head, without a scale; the values are the context itself.

    Arguments and returns as in `base.py`. Query and context must be `dim` wide: what is compared
    must have one size.
    """

    def build(self, query_shape, context_shape=None):
        self.check_width(query=query_shape, context=context_shape or query_shape)
