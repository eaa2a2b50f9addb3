"""Functions for dot-product attention: scores, masked softmax, weighted sum, heads.

Queries have H heads. Keys and values have G: G = H in multi-head attention; when G is smaller
(it divides H), query heads g·H/G … (g+1)·H/G − 1 use key/value head g.
"""

import math

from keras import ops

from tfx_transformer.backend import matmul_transposed

LOW = -1e9  # replaces −∞; scores are masked in float32, so it cannot overflow


def dot_product_scores(q, k):
    """QKᵀ: (B, H, T, K), (B, G, S, K) → (B, H, T, S)."""
    return _by_group(matmul_transposed, q, k)


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
    return _by_group(ops.matmul, ops.cast(weights, v.dtype), v)


def split_heads(x, num_heads):
    """(B, T, H·K) → (B, H, T, K)."""
    head_dim = x.shape[-1] // num_heads
    if x.shape[1] == 1:  # one step of decoding: nothing to transpose
        return ops.reshape(x, (-1, num_heads, 1, head_dim))
    x = ops.reshape(x, (-1, ops.shape(x)[1], num_heads, head_dim))
    return ops.transpose(x, (0, 2, 1, 3))


def merge_heads(x):
    """(B, H, T, K) → (B, T, H·K)."""
    _, num_heads, length, head_dim = ops.shape(x)
    x = x if x.shape[2] == 1 else ops.transpose(x, (0, 2, 1, 3))
    return ops.reshape(x, (-1, length, num_heads * head_dim))


def _softmax(scores):
    """Keras's softmax, except for a single key, for which it would warn."""
    return ops.ones_like(scores) if scores.shape[-1] == 1 else ops.softmax(scores, axis=-1)


def _by_group(matmul, x, y):
    """matmul of (B, H, T, ·) with (B, G, ·, ·), where H/G heads of x share one head of y."""
    num_heads, num_groups = x.shape[1], y.shape[1]
    if num_heads == num_groups:
        return matmul(x, y)
    length, width = ops.shape(x)[2:]
    stacked = ops.reshape(x, (-1, num_groups, num_heads // num_groups * length, width))
    product = matmul(stacked, y)
    return ops.reshape(product, (-1, num_heads, length, ops.shape(product)[-1]))
