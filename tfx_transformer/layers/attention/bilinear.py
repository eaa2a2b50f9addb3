"""Bilinear attention (arXiv:1508.04025, equation 8, "general")."""

from tfx_transformer.layers.attention.base import Attention
from tfx_transformer.layers.attention.dot_product import split_heads
from tfx_transformer.layers.dense import apply_dense, build_dense


class BilinearAttention(Attention):
    """Bilinear (Luong) attention: score = qᵀWk; head h has its own columns of W.

    The values are the context itself. Arguments and returns as in `base.py`. The query may have any
    width; the context is `dim` wide.
    """

    def build(self, query_shape, context_shape=None):
        self.check_width(context=context_shape or query_shape)
        self.bilinear = build_dense(self, "bilinear", query_shape[-1], self.dim, use_bias=False)

    def project_query(self, query, index):
        return split_heads(apply_dense(self.bilinear, query), self.num_heads)
