"""Attention rollout, attention distance, position similarity and filters of a Vision Transformer.

An image is R rows and S columns of patches, row by row, after its class tokens:
N = num_tokens + R·S. The maps of one image are a list of (H, N, N), one for each layer:

    maps = [weights[0] for weights in model.attention_maps(images).values()]
"""

import math
from collections.abc import Iterator
from functools import reduce

import numpy as np

from tfx_transformer.checks import check_above_zero, check_positive, check_whole
from tfx_transformer.visualization.figure import check_array


def attention_rollout(maps) -> np.ndarray:
    """Attention rollout (arXiv:2005.00928): (N, N), rows sum to one.

    The mean over the heads plus the residual connection with equal weight, multiplied over the
    layers.
    """
    steps = [weights.mean(axis=0) + np.eye(weights.shape[1]) for weights in _layers(maps)]
    steps = [step / step.sum(axis=1, keepdims=True) for step in steps]  # (N, N) each
    return reduce(lambda before, step: step @ before, steps)


def token_attention(weights, grid: tuple[int, int], num_tokens: int = 1) -> np.ndarray:
    """Attention from the class tokens to the patches, per head: (H, N, N) → (H, R, S).

    The mean over the class tokens, or over all patches if there are none. Attention to class
    tokens is left out. `grid` is R and S.
    """
    weights = check_array("HNN", 0, weights=weights)
    check_grid(weights.shape[1], grid, num_tokens)
    return weights[:, : num_tokens or None].mean(axis=1)[:, num_tokens:].reshape(-1, *grid)


def token_rollout(maps, grid: tuple[int, int], num_tokens: int = 1) -> np.ndarray:
    """Attention rollout from the class tokens to the patches: (R, S), sums to one or is all zero.

    See `attention_rollout` and `token_attention`.
    """
    rollout = token_attention(attention_rollout(maps)[None], grid, num_tokens)[0]
    return rollout / (rollout.sum() or 1)


def mean_attention_distance(
    maps, grid: tuple[int, int], patch_size: float, num_tokens: int = 1
) -> np.ndarray:
    """Mean attention distance of each head, in pixels of the image: (depth, H).

    The distance between patches, weighted by attention, averaged over the queries (figure 7 of
    arXiv:2010.11929). Class tokens are left out; a patch that attends only to them counts as 0.
    `patch_size` is the number of pixels from one patch to the next.
    """
    check_above_zero(patch_size=patch_size)
    means = []
    for weights in _layers(maps):
        check_grid(weights.shape[1], grid, num_tokens)
        positions = np.indices(grid).reshape(2, -1)  # (2, R·S): row and column of each patch
        distances = np.hypot(*(positions[:, :, None] - positions[:, None]))  # (R·S, R·S)
        weights = weights[:, num_tokens:, num_tokens:]
        total = weights.sum(axis=-1)  # (H, R·S)
        weighted = (weights * distances).sum(axis=-1) / np.where(total > 0, total, 1)
        means.append(weighted.mean(axis=-1))
    return patch_size * np.stack(means)


def position_similarity(positions) -> np.ndarray:
    """Cosine similarities of position embeddings: (N, D) → (N, N); 0 where a vector is zero."""
    positions = check_array("ND", -math.inf, positions=positions)
    lengths = np.linalg.norm(positions, axis=1, keepdims=True)
    unit = positions / np.where(lengths > 0, lengths, 1)
    return unit @ unit.T


def first_filters(kernel, count: int) -> np.ndarray:
    """The first principal components of the patch embedding filters: (count, P, P, C) in 0..1.

    Of a kernel (P, P, C, D), in order of falling variance, at most D - 1. Each is scaled by its
    largest weight, which is made positive; 0.5 stands for a weight of zero (figure 7 of
    arXiv:2010.11929).
    """
    kernel = check_array("PPCD", -math.inf, kernel=kernel)
    check_positive(count=count)
    *shape, dim = kernel.shape
    filters = kernel.reshape(-1, dim).T  # (D, P·P·C)
    _, _, components = np.linalg.svd(filters - filters.mean(axis=0), full_matrices=False)
    components = components[: min(count, dim - 1)]
    largest = np.abs(components).argmax(axis=1)[:, None]
    components = components / np.take_along_axis(components, largest, axis=1)  # in -1..1
    return (0.5 + 0.5 * components).reshape(-1, *shape)


def _layers(maps) -> Iterator[np.ndarray]:
    """Each layer's (H, N, N), checked; one at a time, because together they may be large."""
    maps = list(maps)
    if not maps:
        raise ValueError("maps must contain at least one layer; got none")
    shapes = [np.shape(layer) for layer in maps]
    if len(set(shapes)) > 1:
        raise ValueError(f"maps must all have the same shape (H, N, N); got {shapes}")
    for layer in maps:
        yield check_array("HNN", 0, maps=layer)


def check_grid(length: int, grid, num_tokens: int = 0) -> None:
    """Raises ValueError unless `length` tokens are class tokens and a grid of patches."""
    rows, columns = grid
    check_positive(rows=rows, columns=columns)
    check_whole(num_tokens=num_tokens)
    if num_tokens + rows * columns != length:
        raise ValueError(
            f"grid must have N - num_tokens patches; got N={length}, num_tokens={num_tokens}, "
            f"grid={tuple(grid)}"
        )
