"""Multi-head attention, section 3.2.2 of arXiv:1706.03762."""

from keras import ops

from tfx_transformer.layers.attention.base import Attention
from tfx_transformer.layers.attention.dot_product import scaled_dot_product_scores
from tfx_transformer.layers.dense import apply_dense, apply_to_heads, build_dense
from tfx_transformer.layers.position import POSITION


class MultiHeadAttention(Attention):
    """Multi-head attention: softmax(QKᵀ/√K)V in H heads, then an output projection.

    Arguments and returns as in `base.py`, and:

    Args:
        qkv_bias: whether queries, keys and values have a bias; the output always has one.
        position: None, or a position layer inside attention: "rotary", "relative" or a dict
            like {"kind": "relative", "max_distance": 16}.
    """

    def __init__(self, dim, num_heads, qkv_bias=True, position=None, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        self.position_layer = None
        if position is not None:
            if POSITION.find(position)[0].acts_on == "tokens":
                inside = [name for name in POSITION if POSITION[name].acts_on != "tokens"]
                raise ValueError(
                    f"position must act inside attention: {', '.join(inside)}; "
                    f"got position={position!r}, which belongs before the first block"
                )
            self.position_layer = POSITION.make(position, dtype=self.dtype_policy, name="position")

    def build(self, query_shape, context_shape=None):
        query_dim, context_dim = query_shape[-1], (context_shape or query_shape)[-1]
        kv_dim = 2 * self.num_kv_heads * (self.dim // self.num_heads)
        bias = self.qkv_bias
        self.query = build_dense(self, "query", query_dim, self.dim, use_bias=bias)
        self.key_value = build_dense(self, "key_value", context_dim, kv_dim, 2, use_bias=bias)
        self.out = build_dense(self, "output", self.dim, self.dim)
        if self.position_layer is not None:
            self.position_layer.build((None, self.num_heads, None, self.dim // self.num_heads))

    def project_query(self, query, index):
        q = apply_to_heads(self.query, query, self.num_heads)
        return self._add_position("heads", q, index)

    def project_context(self, context, index):
        k, v = ops.split(apply_to_heads(self.key_value, context, 2 * self.num_kv_heads), 2, axis=1)
        return self._add_position("heads", k, index), v

    def score(self, q, k, index):
        return self._add_position("scores", scaled_dot_product_scores(q, k), index)

    def project_output(self, x):
        return apply_dense(self.out, x)

    def _add_position(self, acts_on, x, index):
        layer = self.position_layer
        return x if layer is None or layer.acts_on != acts_on else layer(x, start=index)
