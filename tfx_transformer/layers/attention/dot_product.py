"""Functions for dot-product attention: scores, masked softmax, weighted sum, heads.

Queries have H heads. Keys and values have G: G = H in multi-head attention; when G is smaller
(it divides H), query heads g·H/G … (g+1)·H/G − 1 use key/value head g.
"""

import math

from keras import ops

LOW = -1e9  # replaces −∞; scores are masked in float32, so it cannot overflow


def dot_product_scores(q, k):
    """QKᵀ: (B, H, T, K), (B, G, S, K) → (B, H, T, S)."""
    return _by_group(q, ops.transpose(k, (0, 1, 3, 2)))


def scaled_dot_product_scores(q, k):
    """QKᵀ/√K, equation 1 of arXiv:1706.03762; q is scaled first to avoid float16 overflow."""
    return dot_product_scores(q * (1.0 / math.sqrt(q.shape[-1])), k)


def masked_softmax(scores, mask=None):
    """Softmax of scores (…, T, S) over the keys, in float32; a row without an allowed key is zeros.

    The mask is boolean, True = may attend, and broadcastable to the scores.
    """
    scores = ops.cast(scores, "float32")
    if mask is None:
        return _softmax(scores)
    return ops.where(mask, _softmax(ops.where(mask, scores, LOW)), 0.0)


def weighted_sum(weights, v):
    """AV: (B, H, T, S), (B, G, S, K) → (B, H, T, K)."""
    return _by_group(ops.cast(weights, v.dtype), v)


def split_heads(x, num_heads):
    """(B, T, H·K) → (B, H, T, K)."""
    length, width = ops.shape(x)[1], x.shape[-1]
    x = ops.reshape(x, (-1, length, num_heads, width // num_heads))
    return ops.transpose(x, (0, 2, 1, 3))


def merge_heads(x):
    """(B, H, T, K) → (B, T, H·K)."""
    _, num_heads, length, head_dim = ops.shape(x)
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (-1, length, num_heads * head_dim))


def _softmax(scores):
    """Keras's softmax, except for a single key, for which it would warn."""
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)


def _by_group(x, y):
    """matmul of (B, H, T, A) with (B, G, A, C), where H/G heads of x share one head of y."""
    num_heads, num_groups = x.shape[1], y.shape[1]
    if num_heads == num_groups:
        return ops.matmul(x, y)
    length, width = ops.shape(x)[2:]
    stacked = ops.reshape(x, (-1, num_groups, num_heads // num_groups * length, width))
    return ops.reshape(ops.matmul(stacked, y), (-1, num_heads, length, ops.shape(y)[-1]))
