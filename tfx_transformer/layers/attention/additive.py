"""Additive attention (arXiv:1409.0473, appendix A.1.2)."""

from keras import ops

from tfx_transformer.checks import check_divides
from tfx_transformer.layers.attention.base import Attention
from tfx_transformer.layers.attention.dot_product import split_heads
from tfx_transformer.layers.dense import apply_dense, build_dense


class AdditiveAttention(Attention):
    """Additive (Bahdanau) attention: score = eᵀ tanh(Wq + Uk + b), per head.

    The values are the context itself. Arguments and returns as in `base.py`. Query and context may
    have any width; the output is as wide as the context.
    """

    def build(self, query_shape, context_shape=None):
        query_dim, context_dim = query_shape[-1], (context_shape or query_shape)[-1]
        check_divides(num_heads=self.num_heads, context_dim=context_dim)
        self.value_dim = context_dim
        self.query = build_dense(self, "query", query_dim, self.dim)
        self.key = build_dense(self, "key", context_dim, self.dim, use_bias=False)
        self.energy = self.add_weight(
            shape=(self.num_heads, self.dim // self.num_heads),
            initializer=self.initializer,
            name="energy",
        )

    def project_query(self, query, index):
        return split_heads(apply_dense(self.query, query), self.num_heads)

    def project_context(self, context, index):
        key = apply_dense(self.key, context)
        return split_heads(key, self.num_heads), split_heads(context, self.num_heads)

    def score(self, q, k, index):
        hidden = ops.tanh(q[:, :, :, None] + k[:, :, None])  # (B, H, T, S, K)
        return ops.einsum("bhtsk,hk->bhts", hidden, self.energy)
