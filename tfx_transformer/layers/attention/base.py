"""The contract that all attention layers keep, and the one forward path behind it."""

import keras
from keras import ops

from tfx_transformer.checks import check_divides, check_rate
from tfx_transformer.config import Configured
from tfx_transformer.layers.attention.dot_product import (
    dot_product_scores,
    masked_softmax,
    merge_heads,
    split_heads,
    weighted_sum,
)
from tfx_transformer.layers.masks import combine_masks


class Attention(Configured, keras.layers.Layer):
    """Queries look at a context: score every key, softmax, sum the values by these weights.

    Subclasses override the steps in which they differ: `project_query`, `project_context`,
    `score`, `weigh`, `project_output`. As they stand here they have no weights.

    Args:
        dim: D, the width in which queries and keys are compared.
        num_heads: H; divides `dim`.
        dropout: rate on the weights, in training.
        initializer: of the kernels, if there are any.

    Call arguments:
        query: (B, T, D).
        context: (B, S, D) to read from, or what `prepare` made of it; the query itself if None
            (self-attention).
        attention_mask: boolean, broadcastable to (B, H, T, S); True where a query may look.
        cache: keys and values of the past, from `empty_cache`, for step-by-step self-attention.
        index: the position of the first query; its keys and values enter the cache there.

    Returns:
        The output (B, T, D), the weights (B, H, T, S) and the new cache, which is () without one:
        Keras's functional models take no None among a layer's results.
    """

    def __init__(self, dim, num_heads=1, dropout=0.0, initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        check_divides(num_heads=num_heads, dim=dim)
        check_rate(dropout=dropout)
        self.dim, self.num_heads = dim, num_heads
        self.dropout, self.initializer = dropout, initializer
        self.num_kv_heads = num_heads  # G; fewer only in grouped-query attention
        self.value_dim = dim  # the values' width over all heads; additive attention takes any
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="drop")

    def call(self, query, context=None, attention_mask=None, cache=None, index=0, training=None):
        if context is not None and cache:
            raise ValueError("context and cache exclude each other: a cache is of self-attention")
        if context is None and not cache and isinstance(index, int) and index != 0:
            raise ValueError(f"self-attention at index={index} needs a cache of what came before")
        q = self.project_query(query, index)  # (B, H, T, K)
        if context is None:
            k, v = self.project_context(query, index)
        elif isinstance(context, tuple | list):
            k, v = context
        else:
            k, v = self.project_context(context, 0)
        if cache:  # (B, G, S, K)
            k, v = cache = write_cache(cache, k, v, index)
            written = ops.arange(ops.shape(k)[2]) < index + ops.shape(q)[2]
            attention_mask = combine_masks(attention_mask, written)

        weights = self.weigh(self.score(q, k, index), attention_mask, index, training)
        x = weighted_sum(self.drop(weights, training=training), v)  # (B, H, T, K)
        return self.project_output(merge_heads(x)), weights, cache or ()

    def project_query(self, query, index):
        """(B, T, D) at positions index … → (B, H, T, K)."""
        return split_heads(query, self.num_heads)

    def project_context(self, context, index):
        """(B, S, D) at positions index … → keys and values, (B, G, S, K) each."""
        heads = split_heads(context, self.num_heads)
        return heads, heads

    def score(self, q, k, index):
        """Queries at positions index … and keys at 0 … → (B, H, T, S)."""
        return dot_product_scores(q, k)

    def weigh(self, scores, attention_mask, index, training):
        """(B, H, T, S) → weights (B, H, T, S): a distribution over the keys for each query."""
        return masked_softmax(scores, attention_mask)

    def project_output(self, x):
        """(B, T, H·K) → (B, T, D)."""
        return x

    def prepare(self, context):
        """(B, S, D) → its keys and values: pass them as `context` to compute them only once."""
        if not self.built:
            raise ValueError("call the layer once before prepare: it does not know its sizes yet")
        return self.project_context(ops.convert_to_tensor(context, dtype=self.compute_dtype), 0)

    def empty_cache(self, batch_size, max_length):
        """Room for the keys and values of `max_length` positions."""
        room = (batch_size, self.num_kv_heads, max_length)
        key = ops.zeros((*room, self.dim // self.num_heads), self.compute_dtype)
        value = ops.zeros((*room, self.value_dim // self.num_heads), self.compute_dtype)
        return key, value

    def check_width(self, **shapes):
        """What is compared as it comes must be `dim` wide."""
        for name, shape in shapes.items():
            if shape[-1] != self.dim:
                raise ValueError(f"{name} must be dim={self.dim} wide; got {name} {tuple(shape)}")


def write_cache(cache, k, v, index):
    """Puts new keys and values at `index`: (B, G, S, K) ← (B, G, T, K)."""
    old_k, old_v = cache
    length, room = k.shape[2], old_k.shape[2]
    if all(isinstance(size, int) for size in (index, length, room)) and index + length > room:
        raise ValueError(f"the cache has room for {room} positions; got {index + length}")
    at = (0, 0, index, 0)
    return ops.slice_update(old_k, at, k), ops.slice_update(old_v, at, v)
