"""Local attention (arXiv:1508.04025, section 3.2, local-m)."""

from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.layers.attention.multi_head import MultiHeadAttention
from tfx_transformer.layers.masks import combine_masks, local_mask

MIN_BLOCK = 32  # queries; smaller blocks are not faster


class LocalAttention(MultiHeadAttention):
    """Multi-head attention from query t to keys t − window//2 … t + window//2.

    Time and memory grow linearly with the length: blocks of queries attend to the keys around them.
    Scores of all pairs are computed only if they are used. Arguments and returns as in
    `multi_head.py`, and:

    Args:
        window: number of keys per query; odd, with the query in the middle.
    """

    def __init__(self, dim, num_heads, window=21, **kwargs):
        super().__init__(dim, num_heads, **kwargs)
        check_positive(window=window)
        if window % 2 == 0:
            raise ValueError(f"window must be odd; got window={window}")

    def mix(self, q, k, v, attention_mask, index, training):
        size, reach = max(self.window, MIN_BLOCK), self.window // 2
        is_short = q.shape[2] is not None and q.shape[2] <= size
        if is_short or not isinstance(index, int) or index != 0:
            return super().mix(q, k, v, attention_mask, index, training)
        weights = self.normalize_scores(self.score(q, k, 0), attention_mask, 0, training)

        batch_size, _, length, _ = ops.shape(q)
        count = -(-length // size)  # N
        if attention_mask is None:
            attention_mask = ops.ones((1, 1, 1, ops.shape(k)[2]), "bool")
        mask = mask_blocks(attention_mask, batch_size, count, size, reach)
        q = query_blocks(q, count, size)
        k, v = (key_blocks(x, count, size, reach) for x in (k, v))
        # in each block the first query is at position `reach` of the keys
        output, _ = super().mix(q, k, v, mask, reach, training)  # (B·N, size, D)
        output = ops.reshape(output, (-1, count * size, self.dim))[:, :length]
        return output, weights

    def normalize_scores(self, scores, attention_mask, index, training):
        band = local_mask(*ops.shape(scores)[2:], window=self.window, start=index)
        mask = combine_masks(attention_mask, band)
        return super().normalize_scores(scores, mask, index, training)


def query_blocks(x, count, size):
    """(B, H, T, K) → blocks (B·N, H, size, K); the last one is padded."""
    x = fit_axis(x, 2, 0, count * size)
    return merge_blocks(ops.reshape(x, (-1, x.shape[1], count, size, x.shape[3])))


def key_blocks(x, count, size, reach):
    """(B, H, S, K) → (B·N, H, size + 2·reach, K): the keys of each block of queries.

    These are its own keys and `reach` before and after them; zeros outside of the sequence.
    """
    x = fit_axis(x, 2, reach, (count + 1) * size)
    x = ops.reshape(x, (-1, x.shape[1], count + 1, size, x.shape[3]))
    return merge_blocks(ops.concatenate([x[:, :, :-1], x[:, :, 1:, : 2 * reach]], axis=3))


def mask_blocks(mask, batch_size, count, size, reach):
    """A mask (B, H, T, S), with 1 where it is broadcast, → (B·N, H, size, size + 2·reach)."""
    if mask.shape[2] == 1:
        mask = fit_axis(mask, 3, reach, (count + 1) * size)
        mask = ops.reshape(mask, (-1, mask.shape[1], count + 1, 1, size))
        mask = ops.concatenate([mask[:, :, :-1], mask[:, :, 1:, :, : 2 * reach]], axis=4)
    else:
        mask = fit_axis(fit_axis(mask, 2, 0, count * size), 3, reach, (count + 1) * size)
        mask = ops.reshape(mask, (-1, mask.shape[1], count, size, (count + 1) * size))
        key = ops.arange(count)[:, None] * size + ops.arange(size + 2 * reach)
        mask = ops.take_along_axis(mask, key[None, None, :, None], axis=4)
    mask = ops.broadcast_to(mask, (batch_size, *ops.shape(mask)[1:]))
    return merge_blocks(mask)


def merge_blocks(x):
    """(B, H, N, …) → (B·N, H, …)."""
    x = ops.swapaxes(x, 1, 2)
    return ops.reshape(x, (-1, *ops.shape(x)[2:]))


def fit_axis(x, axis, before, size):
    """x with zeros before it, and with zeros after it or cut to this size of an axis."""
    after = size - before - ops.shape(x)[axis]
    after = max(after, 0) if isinstance(after, int) else ops.maximum(after, 0)
    pads = [(0, 0)] * len(x.shape)
    pads[axis] = (before, after)
    keep = [slice(None)] * axis + [slice(0, size)]
    return ops.pad(x, pads)[tuple(keep)]
