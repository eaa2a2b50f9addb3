"""Each measure against its definition in plain loops, and where the answer is known by hand."""

import math

import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.rollout import (
    attention_rollout,
    first_filters,
    mean_attention_distance,
    position_similarity,
    token_attention,
    token_rollout,
)

GRID = (3, 5)


def attention(*shape):
    weights = np.exp(2 * np.random.default_rng(0).normal(size=shape))
    return weights / weights.sum(axis=-1, keepdims=True)


def rollout_in_loops(maps):
    length = len(maps[0][0])
    rollout = np.eye(length)
    for heads in maps:
        step = np.zeros((length, length))
        for i in range(length):
            for j in range(length):
                step[i, j] = 0.5 * sum(head[i, j] for head in heads) / len(heads) + 0.5 * (i == j)
            step[i] /= sum(step[i])
        rollout = step @ rollout
    return rollout


@pytest.mark.parametrize("depth, num_heads, length", [(1, 1, 1), (1, 3, 7), (4, 2, 5)])
def test_the_rollout_is_its_definition_and_its_rows_sum_to_one(depth, num_heads, length):
    maps = attention(depth, num_heads, length, length)
    maps = 0.9 * maps  # as dropout or rounding may leave them
    rollout = attention_rollout(list(maps))
    np.testing.assert_allclose(rollout, rollout_in_loops(maps))
    np.testing.assert_allclose(rollout.sum(axis=1), 1)


def test_who_sees_only_itself_has_seen_nothing_else():
    np.testing.assert_array_equal(attention_rollout([np.eye(5)[None]] * 3), np.eye(5))


def test_of_even_attention_a_half_is_left_in_each_layer():
    even = np.full((2, 7, 7), 1 / 7)
    expected = 0.125 * np.eye(7) + 0.875 / 7
    np.testing.assert_allclose(attention_rollout([even] * 3), expected)


def test_the_first_layer_comes_first():
    to_one, to_zero = np.eye(3)[None].copy(), np.eye(3)[None].copy()
    to_one[0, 0] = [0, 1, 0]  # 0 looks at 1
    to_zero[0, 2] = [1, 0, 0]  # 2 looks at 0
    assert attention_rollout([to_one, to_zero])[2, 1] == 0.25
    assert attention_rollout([to_zero, to_one])[2, 1] == 0


@pytest.mark.parametrize("num_tokens", [0, 1, 2])
def test_the_tokens_or_else_all_patches_look_at_a_grid(num_tokens):
    length = num_tokens + 15
    maps = attention(2, 4, length, length)
    looking = range(num_tokens) if num_tokens else range(length)
    rollout = rollout_in_loops(maps)
    heads, rolled = np.zeros((4, *GRID)), np.zeros(GRID)
    for row in range(3):
        for column in range(5):
            patch = num_tokens + 5 * row + column
            for head in range(4):
                seen = [maps[1, head, token, patch] for token in looking]
                heads[head, row, column] = sum(seen) / len(looking)
            rolled[row, column] = sum(rollout[token, patch] for token in looking)
    np.testing.assert_allclose(token_attention(maps[1], GRID, num_tokens), heads)
    found = token_rollout(list(maps), GRID, num_tokens)
    np.testing.assert_allclose(found, rolled / rolled.sum())
    assert found.sum() == pytest.approx(1)


def test_a_token_that_looks_at_one_patch_sees_it_alone_and_at_itself_none():
    weights = np.eye(16)[None].copy()
    np.testing.assert_array_equal(token_rollout([weights], GRID), np.zeros(GRID))
    weights[0, 0] = np.eye(16)[1 + 5 * 2 + 3]
    expected = np.zeros(GRID)
    expected[2, 3] = 1
    np.testing.assert_array_equal(token_attention(weights, GRID), [expected])
    np.testing.assert_allclose(token_rollout([weights], GRID), expected)


@pytest.mark.parametrize("num_tokens, patch_size", [(0, 4), (1, 16), (2, 2.5)])
def test_the_mean_distance_is_its_definition(num_tokens, patch_size):
    length = num_tokens + 15
    maps = attention(2, 3, length, length)
    expected = np.zeros((2, 3))
    for layer, head in np.ndindex(2, 3):
        for i in range(15):
            weights = maps[layer, head, num_tokens + i, num_tokens:]
            for j in range(15):
                far = patch_size * math.dist(divmod(i, 5), divmod(j, 5))
                expected[layer, head] += far * weights[j] / sum(weights) / 15
    found = mean_attention_distance(list(maps), GRID, patch_size, num_tokens)
    np.testing.assert_allclose(found, expected)


def test_distances_known_by_hand():
    itself, even = np.eye(5)[None], np.full((1, 5, 5), 0.2)
    to_token = np.zeros((1, 5, 5))
    to_token[:, :, 0] = 1
    mirrored = np.eye(5)[None, [0, 4, 3, 2, 1]]  # four patches in a row: 3, 1, 1 and 3 steps
    found = mean_attention_distance([itself, even, to_token, mirrored], (1, 4), 10)
    np.testing.assert_allclose(found, [[0], [12.5], [0], [20]])
    found = mean_attention_distance([mirrored], (4, 1), 10)
    np.testing.assert_allclose(found, [[20]])


def test_similarities_are_cosines():
    positions = np.random.default_rng(0).normal(size=(7, 3))
    positions[4] = 0
    found = position_similarity(positions)
    for i, j in np.ndindex(7, 7):
        lengths = math.hypot(*positions[i]) * math.hypot(*positions[j])
        cosine = sum(positions[i] * positions[j]) / lengths if lengths else 0
        assert found[i, j] == pytest.approx(cosine, abs=1e-12)
    np.testing.assert_allclose(np.delete(np.diag(found), 4), 1)


@pytest.mark.parametrize("dim, count, expected", [(40, 5, 5), (7, 30, 6), (60, 50, 27)])
def test_the_first_filters_are_the_axes_along_which_filters_vary_most(dim, count, expected):
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(27, 27)) * np.exp(-np.arange(27) / 4)  # some axes vary more
    kernel = 2 + mixed @ rng.normal(size=(27, dim))
    found = first_filters(kernel.reshape(3, 3, 3, dim), count)
    assert found.shape == (expected, 3, 3, 3) and found.min() >= 0
    np.testing.assert_array_equal(found.max(axis=(1, 2, 3)), 1)
    _, axes = np.linalg.eigh(np.cov(kernel))  # columns, the least variance first
    for component, axis in zip(2 * found.reshape(-1, 27) - 1, axes.T[::-1], strict=False):
        axis = axis / axis[np.abs(axis).argmax()]
        np.testing.assert_allclose(component, axis, atol=1e-6)


@pytest.mark.parametrize("num_tokens", [0, 1, 2])
def test_they_take_what_a_model_gives(num_tokens, draw, randomise):
    images = draw(2, 16, 16, 3)
    model = create_model("vit", "tiny", num_classes=3, num_tokens=num_tokens)
    randomise(model, images)
    maps = [seen[1] for seen in model.attention_maps(images).values()]
    grid = model.grid(images.shape)
    assert token_rollout(maps, grid, num_tokens).shape == (4, 4)
    assert token_attention(maps[0], grid, num_tokens).shape == (4, 4, 4)
    distances = mean_attention_distance(maps, grid, 4, num_tokens)
    assert distances.shape == (2, 4) and (distances > 4).all() and (distances < 17).all()
    assert first_filters(model.patches.kernel, 28).shape == (15, 4, 4, 3)


SQUARE = np.ones((2, 16, 16))


@pytest.mark.parametrize(
    "measure, message",
    [
        (lambda: attention_rollout([]), "maps must hold a layer or more; got none"),
        (lambda: attention_rollout([SQUARE[0]]), r"maps must have axes \(H, N, N\).*\(16, 16\)"),
        (lambda: attention_rollout([SQUARE[:, 1:]]), r"maps must have shape \(H, N, N\); got .*15"),
        (lambda: attention_rollout([SQUARE, SQUARE[:1]]), r"same shape \(H, N, N\); got \[\(2, 16"),
        (lambda: attention_rollout([-SQUARE]), "maps must be finite and not below 0; got -1.0"),
        (lambda: attention_rollout([math.nan * SQUARE]), "maps must be finite .*; got nan"),
        (lambda: token_attention(SQUARE[:, 1:], GRID), r"weights must have shape \(H, N, N\)"),
        (lambda: token_attention(SQUARE, GRID, 0), r"grid must .*; got N=16, num_tokens=0, grid="),
        (lambda: token_attention(SQUARE, (5, 4)), r"num_tokens=1, grid=\(5, 4\)"),
        (lambda: token_attention(SQUARE, (-3, -5)), "rows must be a whole number above zero"),
        (lambda: token_attention(SQUARE, GRID, -1), "num_tokens must be a whole number, zero or"),
        (lambda: token_rollout([SQUARE], (4, 4)), r"grid must have N - num_tokens patches"),
        (lambda: mean_attention_distance([SQUARE], (4, 4), 8), "grid must have N - num_tokens"),
        (lambda: mean_attention_distance([SQUARE], GRID, 0), "patch_size must be above zero"),
        (lambda: mean_attention_distance([], GRID, 8), "maps must hold a layer or more"),
        (lambda: position_similarity(np.ones(3)), r"positions must have axes \(N, D\)"),
        (lambda: first_filters(np.ones((4, 4, 3)), 2), r"kernel must have axes \(P, P, C, D\)"),
        (lambda: first_filters(np.ones((4, 4, 3, 5)), 0), "count must be a whole number above"),
    ],
)
def test_what_cannot_be_measured_is_told(measure, message):
    with pytest.raises(ValueError, match=message):
        measure()
