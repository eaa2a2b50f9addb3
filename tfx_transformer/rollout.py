"""What a Vision Transformer has learned, as numbers to look at: functions of arrays.

A picture is R rows and S columns of patches, row by row, after its class tokens:
N = num_tokens + R·S. The maps of one picture are a list of (H, N, N), a layer after the other:

    maps = [seen[0] for seen in model.attention_maps(images).values()]
"""

import math
from collections.abc import Iterator
from functools import reduce

import numpy as np

from tfx_transformer.checks import check_above_zero, check_positive, check_whole
from tfx_transformer.plots import _numbers


def attention_rollout(maps) -> np.ndarray:
    """How much of each token has come to each token through all layers: (N, N), rows sum to one.

    Attention rollout (arXiv:2005.00928): the mean over the heads, with the residual connection as
    an equal part, multiplied from layer to layer.
    """
    steps = [weights.mean(axis=0) + np.eye(weights.shape[1]) for weights in _layers(maps)]
    steps = [step / step.sum(axis=1, keepdims=True) for step in steps]  # (N, N) each
    return reduce(lambda before, step: step @ before, steps)


def token_attention(weights, grid: tuple[int, int], num_tokens: int = 1) -> np.ndarray:
    """Where the class tokens look among the patches, head by head: (H, N, N) → (H, R, S).

    Of two tokens it is the mean; without any, the mean over all patches. What they see of
    the tokens is left out, so a head that looks at these is dark.

    Args:
        weights: (H, N, N), one layer of one picture.
        grid: R and S.
        num_tokens: how many of the N are class tokens; they come first.
    """
    weights = _heads(weights=weights)
    _check_grid(weights.shape[1], grid, num_tokens)
    looking = weights[:, : num_tokens or None]
    return looking.mean(axis=1)[:, num_tokens:].reshape(-1, *grid)


def token_rollout(maps, grid: tuple[int, int], num_tokens: int = 1) -> np.ndarray:
    """How much of each patch has come to the class tokens: (R, S), which sums to one.

    See `attention_rollout` and `token_attention`. It is all zero if nothing has come.
    """
    seen = token_attention(attention_rollout(maps)[None], grid, num_tokens)[0]
    return seen / (seen.sum() or 1)


def mean_attention_distance(
    maps, grid: tuple[int, int], patch_size: float, num_tokens: int = 1
) -> np.ndarray:
    """How far each head looks, in pixels of the picture: (depth, H).

    The distance from a patch to the patches it sees, weighted by its attention, in the mean over
    all patches (figure 7 of arXiv:2010.11929). Class tokens are left out on both sides; a patch
    that sees nothing else counts as 0.

    Args:
        maps: the layers, each (H, N, N).
        grid: R and S.
        patch_size: pixels from a patch to the next.
        num_tokens: how many of the N are class tokens; they come first.
    """
    check_above_zero(patch_size=patch_size)
    means = []
    for weights in _layers(maps):
        _check_grid(weights.shape[1], grid, num_tokens)
        places = np.indices(grid).reshape(2, -1)  # (2, R·S): row and column of each patch
        distances = np.hypot(*(places[:, :, None] - places[:, None]))  # (R·S, R·S), in patches
        weights = weights[:, num_tokens:, num_tokens:]
        total = weights.sum(axis=-1)  # (H, R·S)
        seen = (weights * distances).sum(axis=-1) / np.where(total > 0, total, 1)
        means.append(seen.mean(axis=-1))
    return patch_size * np.stack(means)


def position_similarity(positions) -> np.ndarray:
    """Cosine similarities of position vectors: (N, D) → (N, N); 0 where a vector is zero."""
    positions = _numbers("ND", -math.inf, positions=positions)
    lengths = np.linalg.norm(positions, axis=1, keepdims=True)
    unit = positions / np.where(lengths > 0, lengths, 1)
    return unit @ unit.T


def first_filters(kernel, count: int) -> np.ndarray:
    """The first principal components of the filters that embed patches: (count, P, P, C) in 0..1.

    The one with the most variance comes first. Each is scaled by its greatest weight, which is
    made positive; 0.5 stands for a weight of zero (figure 7 of arXiv:2010.11929).

    Args:
        kernel: (P, P, C, D).
        count: how many at most; D filters have D - 1 components about their mean.
    """
    kernel = _numbers("PPCD", -math.inf, kernel=kernel)
    check_positive(count=count)
    *shape, dim = kernel.shape
    filters = kernel.reshape(-1, dim).T  # (D, P·P·C)
    _, _, components = np.linalg.svd(filters - filters.mean(axis=0), full_matrices=False)
    components = components[: min(count, dim - 1)]
    greatest = np.abs(components).argmax(axis=1)[:, None]
    components = components / np.take_along_axis(components, greatest, axis=1)  # in -1..1
    return (0.5 + 0.5 * components).reshape(-1, *shape)


def _layers(maps) -> Iterator[np.ndarray]:
    """Each layer's (H, N, N), checked; one at a time, because together they may be large."""
    maps = list(maps)
    if not maps:
        raise ValueError("maps must hold a layer or more; got none")
    shapes = [np.shape(layer) for layer in maps]
    if len(set(shapes)) > 1:
        raise ValueError(f"maps must all have the same shape (H, N, N); got {shapes}")
    for layer in maps:
        yield _heads(maps=layer)


def _heads(**named) -> np.ndarray:
    """`_heads(weights=weights)`: one layer (H, N, N), finite, not below zero."""
    weights = _numbers("HNN", 0, **named)
    if weights.shape[1] != weights.shape[2]:
        (name,) = named
        raise ValueError(f"{name} must have shape (H, N, N); got shape {weights.shape}")
    return weights


def _check_grid(length: int, grid, num_tokens: int) -> None:
    rows, columns = grid
    check_positive(rows=rows, columns=columns)
    check_whole(num_tokens=num_tokens)
    if num_tokens + rows * columns != length:
        raise ValueError(
            f"grid must have N - num_tokens patches; got N={length}, num_tokens={num_tokens}, "
            f"grid={tuple(grid)}"
        )
