"""The base class of all attention layers: their call contract and their forward path."""

from typing import Any, NamedTuple

import keras
from keras import ops

from tfx_transformer.backend import forget_size
from tfx_transformer.checks import check_divides, check_rate
from tfx_transformer.config import Serializable
from tfx_transformer.layers.attention.dot_product import (
    dot_product_scores,
    masked_softmax,
    merge_heads,
    split_heads,
    weighted_sum,
)
from tfx_transformer.layers.dropout import Dropout
from tfx_transformer.layers.masks import combine_masks, expand_mask


class GrowingCache(NamedTuple):
    """Keys and values (B, G, S, K) of the S positions so far; each call appends its own."""

    key: Any
    value: Any


class AttendMixin:
    """Adds `attend` to layers whose `call` takes `return_attention_scores`."""

    def attend(self, *args, **kwargs):
        """Calls the layer → always three results: output, attention scores, cache (() if none)."""
        output, scores, *cache = self(*args, return_attention_scores=True, **kwargs)
        return output, scores, cache[0] if cache else ()


def pack_results(output, scores, cache, return_attention_scores):
    """The results of `call`: output, scores if asked for, new cache if one was given."""
    results = (output,)
    if return_attention_scores:
        results += (scores,)
    if cache is not None:
        results += (cache,)
    return results if len(results) > 1 else output


class Attention(AttendMixin, Serializable, keras.layers.Layer):
    """Attention from queries to a context: score every key, softmax, weighted sum of the values.

    Subclasses override the steps in which they differ: `project_query`, `project_context`, `score`,
    `normalize_scores`, `project_output`. The steps of this class have no weights.

    Args:
        dim: D, the width of queries and keys.
        num_heads: H; divides `dim`.
        dropout: rate on the attention scores, in training.
        initializer: of the kernels, if there are any.

    Call arguments:
        query: (B, T, D).
        context: (B, S, D), or the result of `precompute`; None for self-attention.
        attention_mask: boolean, True = may attend: (B, S), (B, T, S) or broadcastable to
            (B, H, T, S).
        return_attention_scores: whether to return the attention scores too.
        cache: keys and values of earlier positions, from `empty_cache`, for step-by-step
            self-attention, which is causal: query t attends to positions 0 … index + t.
            It has a fixed size or, a `GrowingCache`, that of the positions so far.
        index: the position of the first query; its keys and values are written there.

    Returns:
        The output (B, T, D); with `return_attention_scores` also the scores (B, H, T, S); with
        `cache` also the new cache, last. `attend` always returns these three.
    """

    def __init__(self, dim, num_heads=1, dropout=0.0, initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        check_divides(num_heads=num_heads, dim=dim)
        check_rate(dropout=dropout)
        self.num_kv_heads = num_heads  # G; fewer only in grouped-query attention
        self.value_dim = dim  # width of the values over all heads; any width in additive attention
        self.drop = Dropout(dropout, dtype=self.dtype_policy, name="drop")

    def call(
        self,
        query,
        context=None,
        attention_mask=None,
        return_attention_scores=False,
        cache=None,
        index=0,
        training=None,
    ):
        if context is not None and cache is not None:
            raise ValueError("context and cache exclude each other: a cache is for self-attention")
        if context is None and cache is None and isinstance(index, int) and index != 0:
            raise ValueError(f"self-attention at index={index} needs a cache of earlier positions")
        q = self.project_query(query, index)  # (B, H, T, K)
        if context is None:
            k, v = self.project_context(query, index)
        elif isinstance(context, tuple | list):
            k, v = context
        else:
            k, v = self.project_context(context, 0)
        if cache is not None:  # (B, G, S, K)
            k, v = cache = write_cache(cache, k, v, index)
        shape = (q.shape[0], self.num_heads, q.shape[2], k.shape[2])
        attention_mask = expand_mask(attention_mask, shape)
        if cache is not None and not (isinstance(cache, GrowingCache) and q.shape[2] == 1):
            is_past = ops.arange(ops.shape(k)[2]) <= index + ops.arange(ops.shape(q)[2])[:, None]
            attention_mask = combine_masks(attention_mask, is_past)  # (T, S)

        output, weights = self.mix(q, k, v, attention_mask, index, training)
        return pack_results(output, weights, cache, return_attention_scores)

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

    def mix(self, q, k, v, attention_mask, index, training):
        """Queries, keys and values → the output (B, T, D) and the weights (B, H, T, S)."""
        weights = self.normalize_scores(self.score(q, k, index), attention_mask, index, training)
        return self.sum_values(weights, v, training), weights

    def normalize_scores(self, scores, attention_mask, index, training):
        """(B, H, T, S) → weights (B, H, T, S): a distribution over the keys for each query."""
        return masked_softmax(scores, attention_mask)

    def sum_values(self, weights, v, training):
        """Weights (B, H, T, S) and values (B, G, S, K) → the output (B, T, D)."""
        x = weighted_sum(self.drop(weights, training=training), v)  # (B, H, T, K)
        return self.project_output(merge_heads(x))

    def project_output(self, x):
        """(B, T, H·K) → (B, T, D)."""
        return x

    def precompute(self, context):
        """(B, S, D) → its keys and values; pass them as `context` to compute them only once."""
        if not self.built:
            raise ValueError("precompute needs a built layer: call it once before")
        return self.project_context(ops.convert_to_tensor(context, dtype=self.compute_dtype), 0)

    def empty_cache(self, batch_size, max_length, grow=False):
        """Zeros for the keys and values of `max_length` positions; with `grow` a `GrowingCache`.

        A growing cache is faster where shapes may change in a loop: in TensorFlow without XLA.
        """
        shape = (batch_size, self.num_kv_heads, 0 if grow else max_length)
        key = ops.zeros((*shape, self.dim // self.num_heads), self.compute_dtype)
        value = ops.zeros((*shape, self.value_dim // self.num_heads), self.compute_dtype)
        return GrowingCache(forget_size(key, 2), forget_size(value, 2)) if grow else (key, value)

    def check_width(self, **shapes):
        """Checks the width of inputs that are compared without a projection."""
        for name, shape in shapes.items():
            if shape[-1] != self.dim:
                raise ValueError(f"{name} must be dim={self.dim} wide; got shape {tuple(shape)}")


def write_cache(cache, k, v, index):
    """Writes new keys and values (B, G, T, K) at `index` of a cache (B, G, S, K)."""
    old_k, old_v = cache
    if isinstance(cache, GrowingCache):
        pairs = zip(cache, (k, v), strict=True)
        return GrowingCache(*(forget_size(ops.concatenate(pair, axis=2), 2) for pair in pairs))
    length, size = k.shape[2], old_k.shape[2]
    if all(isinstance(n, int) for n in (index, length, size)) and index + length > size:
        raise ValueError(f"the cache holds {size} positions; got {index + length}")
    start = (0, 0, index, 0)
    return ops.slice_update(old_k, start, k), ops.slice_update(old_v, start, v)
