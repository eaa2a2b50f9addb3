"""Multi-head attention as NumPy loops."""

import math

import numpy as np
import pytest
from keras.ops import convert_to_numpy


@pytest.fixture
def by_loops():
    """softmax(QKᵀ/√K)V by example, head, query and key; head h uses key/value head h·G/H.

    Args:
        visible: boolean, broadcastable to (B, H, T, S).
        rotate: what a position does to a query or key: (K,) and its index → (K,).
        bias: what a position adds to the score of head h, query t and key s.
    """

    def attend(
        layer, query, context, visible=True, rotate=lambda x, t: x, bias=lambda h, t, s: 0.0
    ):
        num_heads, num_kv_heads = layer.num_heads, layer.num_kv_heads
        size = layer.dim // num_heads
        shape = (query.shape[0], num_heads, query.shape[1], context.shape[1])
        visible = np.broadcast_to(visible, shape)
        projected = dense(layer.query, query)
        keys, values = np.split(dense(layer.key_value, context), 2, axis=-1)
        weights = np.zeros(shape)
        merged = np.zeros((*query.shape[:2], layer.dim))
        for b, h, t in np.ndindex(*shape[:3]):
            head = slice(h * size, (h + 1) * size)
            kv_head = h // (num_heads // num_kv_heads)
            kv_slice = slice(kv_head * size, (kv_head + 1) * size)
            q = rotate(projected[b, t, head], t)
            for s in range(shape[3]):
                if visible[b, h, t, s]:
                    score = q @ rotate(keys[b, s, kv_slice], s) / math.sqrt(size) + bias(h, t, s)
                    weights[b, h, t, s] = math.exp(score)
            weights[b, h, t] /= weights[b, h, t].sum() or 1
            for s in range(shape[3]):
                merged[b, t, head] += weights[b, h, t, s] * values[b, s, kv_slice]
        return dense(layer.out, merged), weights

    return attend


def dense(layer, x):
    y = x @ convert_to_numpy(layer.kernel).astype("float64")
    return y if layer.bias is None else y + convert_to_numpy(layer.bias)
