"""Interchangeable attention layers: each takes `(dim, num_heads, …)` and is called as

    output, weights, cache = layer(query, context, attention_mask=…, cache=…, index=…)

`base.py` says what these are. To add one: write it in its own file, add its line below, add
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
