"""Attention layers by name. Each is made with `(dim, num_heads, …)` and called as

    output = layer(query, context, attention_mask=…)
    output, scores, cache = layer.attend(query, context, attention_mask=…, cache=…, index=…)

`base.py` describes these. To add one: write its file, add its line below and
tests/layers/attention/test_<file>.py.
"""

from tfx_transformer.layers.attention.additive import AdditiveAttention
from tfx_transformer.layers.attention.bilinear import BilinearAttention
from tfx_transformer.layers.attention.dot import DotAttention
from tfx_transformer.layers.attention.grouped_query import GroupedQueryAttention
from tfx_transformer.layers.attention.hard import HardAttention
from tfx_transformer.layers.attention.local import LocalAttention
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention
from tfx_transformer.registry import Registry

ATTENTION = Registry(
    "attention",
    {
        "additive": AdditiveAttention,
        "bilinear": BilinearAttention,
        "dot": DotAttention,
        "grouped_query": GroupedQueryAttention,
        "hard": HardAttention,
        "local": LocalAttention,
        "multi_head": MultiHeadAttention,
    },
)
