"""Each function against its definition in plain loops, and against results known by hand."""

import math

import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.visualization.rollout import (
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
def test_rollout_matches_its_definition_and_its_rows_sum_to_one(depth, num_heads, length):
    maps = attention(depth, num_heads, length, length)
    maps = 0.9 * maps  # as dropout or rounding may leave them
    rollout = attention_rollout(list(maps))
    np.testing.assert_allclose(rollout, rollout_in_loops(maps))
    np.testing.assert_allclose(rollout.sum(axis=1), 1)


def test_rollout_of_attention_to_oneself_is_the_identity():
    np.testing.assert_array_equal(attention_rollout([np.eye(5)[None]] * 3), np.eye(5))


def test_rollout_of_uniform_attention_keeps_half_of_the_identity_per_layer():
    even = np.full((2, 7, 7), 1 / 7)
    expected = 0.125 * np.eye(7) + 0.875 / 7
    np.testing.assert_allclose(attention_rollout([even] * 3), expected)


def test_rollout_multiplies_from_the_first_layer_to_the_last():
    to_one, to_zero = np.eye(3)[None].copy(), np.eye(3)[None].copy()
    to_one[0, 0] = [0, 1, 0]  # 0 attends to 1
    to_zero[0, 2] = [1, 0, 0]  # 2 attends to 0
    assert attention_rollout([to_one, to_zero])[2, 1] == 0.25
    assert attention_rollout([to_zero, to_one])[2, 1] == 0


@pytest.mark.parametrize("num_tokens", [0, 1, 2])
def test_class_tokens_or_else_all_patches_attend_to_a_grid(num_tokens):
    length = num_tokens + 15
    maps = attention(2, 4, length, length)
    queries = range(num_tokens) if num_tokens else range(length)
    rollout = rollout_in_loops(maps)
    heads, rolled = np.zeros((4, *GRID)), np.zeros(GRID)
    for row in range(3):
        for column in range(5):
            patch = num_tokens + 5 * row + column
            for head in range(4):
                weights = [maps[1, head, query, patch] for query in queries]
                heads[head, row, column] = sum(weights) / len(queries)
            rolled[row, column] = sum(rollout[query, patch] for query in queries)
    np.testing.assert_allclose(token_attention(maps[1], GRID, num_tokens), heads)
    result = token_rollout(list(maps), GRID, num_tokens)
    np.testing.assert_allclose(result, rolled / rolled.sum())
    assert result.sum() == pytest.approx(1)


def test_a_class_token_that_attends_to_one_patch_has_it_alone():
    weights = np.eye(16)[None].copy()
    np.testing.assert_array_equal(token_rollout([weights], GRID), np.zeros(GRID))
    weights[0, 0] = np.eye(16)[1 + 5 * 2 + 3]
    expected = np.zeros(GRID)
    expected[2, 3] = 1
    np.testing.assert_array_equal(token_attention(weights, GRID), [expected])
    np.testing.assert_allclose(token_rollout([weights], GRID), expected)


@pytest.mark.parametrize("num_tokens, patch_size", [(0, 4), (1, 16), (2, 2.5)])
def test_mean_distance_matches_its_definition(num_tokens, patch_size):
    length = num_tokens + 15
    maps = attention(2, 3, length, length)
    expected = np.zeros((2, 3))
    for layer, head in np.ndindex(2, 3):
        for i in range(15):
            weights = maps[layer, head, num_tokens + i, num_tokens:]
            for j in range(15):
                distance = patch_size * math.dist(divmod(i, 5), divmod(j, 5))
                expected[layer, head] += distance * weights[j] / sum(weights) / 15
    result = mean_attention_distance(list(maps), GRID, patch_size, num_tokens)
    np.testing.assert_allclose(result, expected)


def test_mean_distances_known_by_hand():
    itself, uniform = np.eye(5)[None], np.full((1, 5, 5), 0.2)
    to_token = np.zeros((1, 5, 5))
    to_token[:, :, 0] = 1
    mirrored = np.eye(5)[None, [0, 4, 3, 2, 1]]  # four patches in a row: 3, 1, 1 and 3 steps
    result = mean_attention_distance([itself, uniform, to_token, mirrored], (1, 4), 10)
    np.testing.assert_allclose(result, [[0], [12.5], [0], [20]])
    result = mean_attention_distance([mirrored], (4, 1), 10)
    np.testing.assert_allclose(result, [[20]])


def test_similarities_are_cosine_similarities():
    positions = np.random.default_rng(0).normal(size=(7, 3))
    positions[4] = 0
    result = position_similarity(positions)
    for i, j in np.ndindex(7, 7):
        lengths = math.hypot(*positions[i]) * math.hypot(*positions[j])
        cosine = sum(positions[i] * positions[j]) / lengths if lengths else 0
        assert result[i, j] == pytest.approx(cosine, abs=1e-12)
    np.testing.assert_allclose(np.delete(np.diag(result), 4), 1)


@pytest.mark.parametrize("dim, count, expected", [(40, 5, 5), (7, 30, 6), (60, 50, 27)])
def test_first_filters_are_the_principal_components(dim, count, expected):
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(27, 27)) * np.exp(-np.arange(27) / 4)  # some axes vary more
    kernel = 2 + mixed @ rng.normal(size=(27, dim))
    result = first_filters(kernel.reshape(3, 3, 3, dim), count)
    assert result.shape == (expected, 3, 3, 3) and result.min() >= 0
    np.testing.assert_array_equal(result.max(axis=(1, 2, 3)), 1)
    _, axes = np.linalg.eigh(np.cov(kernel))  # columns, the least variance first
    for component, axis in zip(2 * result.reshape(-1, 27) - 1, axes.T[::-1], strict=False):
        axis = axis / axis[np.abs(axis).argmax()]
        np.testing.assert_allclose(component, axis, atol=1e-6)


@pytest.mark.parametrize("num_tokens", [0, 1, 2])
def test_the_functions_accept_the_maps_of_a_model(num_tokens, draw, randomize):
    images = draw(2, 16, 16, 3)
    model = create_model("vit", "test", num_classes=3, num_tokens=num_tokens)
    randomize(model, images)
    maps = [weights[1] for weights in model.attention_maps(images).values()]
    grid = model.grid(images.shape)
    assert token_rollout(maps, grid, num_tokens).shape == (4, 4)
    assert token_attention(maps[0], grid, num_tokens).shape == (4, 4, 4)
    distances = mean_attention_distance(maps, grid, 4, num_tokens)
    assert distances.shape == (2, 4) and (distances > 4).all() and (distances < 17).all()
    assert first_filters(model.patches.kernel, 28).shape == (15, 4, 4, 3)


SQUARE = np.ones((2, 16, 16))


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda: attention_rollout([]), "maps must contain at least one layer; got none"),
        (lambda: attention_rollout([SQUARE[0]]), r"maps must have axes \(H, N, N\).*\(16, 16\)"),
        (lambda: attention_rollout([SQUARE[:, 1:]]), r"maps must have axes \(H, N, N\).*15"),
        (lambda: attention_rollout([SQUARE, SQUARE[:1]]), r"same shape \(H, N, N\); got \[\(2, 16"),
        (lambda: attention_rollout([-SQUARE]), "maps must be finite and not below 0; got -1.0"),
        (lambda: attention_rollout([math.nan * SQUARE]), "maps must be finite .*; got nan"),
        (lambda: token_attention(SQUARE[:, 1:], GRID), r"weights must have axes \(H, N, N\)"),
        (lambda: token_attention(SQUARE, GRID, 0), r"grid must .*; got N=16, num_tokens=0, grid="),
        (lambda: token_attention(SQUARE, (5, 4)), r"num_tokens=1, grid=\(5, 4\)"),
        (lambda: token_attention(SQUARE, (-3, -5)), "rows must be a whole number above zero"),
        (lambda: token_attention(SQUARE, GRID, -1), "num_tokens must be a whole number, zero or"),
        (lambda: token_rollout([SQUARE], (4, 4)), r"grid must have N - num_tokens patches"),
        (lambda: mean_attention_distance([SQUARE], (4, 4), 8), "grid must have N - num_tokens"),
        (lambda: mean_attention_distance([SQUARE], GRID, 0), "patch_size must be above zero"),
        (lambda: mean_attention_distance([], GRID, 8), "maps must contain at least one layer"),
        (lambda: position_similarity(np.ones(3)), r"positions must have axes \(N, D\)"),
        (lambda: first_filters(np.ones((4, 4, 3)), 2), r"kernel must have axes \(P, P, C, D\)"),
        (lambda: first_filters(np.ones((4, 4, 3, 5)), 0), "count must be a whole number above"),
    ],
)
def test_bad_arguments_are_refused(function, message):
    with pytest.raises(ValueError, match=message):
        function()
