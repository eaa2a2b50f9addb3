"""Neighborhood attention against loops over cells and their neighbors."""

import numpy as np
import pytest
from keras import ops

from tfx_transformer.layers.attention.neighborhood import NeighborhoodAttention, inside


def expected(layer, x):
    """One cell, one head, one neighbor at a time."""
    weights = {w.path.split("/", 1)[-1]: np.asarray(w) for w in layer.weights}
    batch, height, width, dim = x.shape
    heads, size, edge = layer.num_heads, layer.window, layer.window // 2
    head_dim = dim // heads
    down, right = weights["down"], weights["right"]
    flat = x.reshape(batch, -1, dim)
    q = np.asarray(layer.project_query(flat, 0))
    k, v = (np.asarray(y) for y in layer.project_context(flat, 0))
    mixed, weights_by_loops = np.zeros_like(flat), np.zeros((batch, heads, height * width, size**2))
    for b in range(batch):
        for h in range(heads):
            for row in range(height):
                for column in range(width):
                    cell, scores, values = row * width + column, {}, {}
                    for i in range(size):
                        for j in range(size):
                            r, c = row + i - edge, column + j - edge
                            if 0 <= r < height and 0 <= c < width:
                                key = k[b, h, r * width + c] + np.concatenate([down[i], right[j]])
                                scores[i * size + j] = q[b, h, cell] @ key / head_dim**0.5
                                values[i * size + j] = v[b, h, r * width + c]
                    total = sum(np.exp(score) for score in scores.values())
                    for neighbor, score in scores.items():
                        weight = np.exp(score) / total
                        weights_by_loops[b, h, cell, neighbor] = weight
                        mixed[b, cell, h * head_dim : (h + 1) * head_dim] += (
                            weight * values[neighbor]
                        )
    return np.asarray(layer.project_output(mixed)).reshape(x.shape), weights_by_loops


@pytest.mark.parametrize("window", [1, 3, 5])
def test_it_equals_its_definition(window, randomize):
    layer = NeighborhoodAttention(12, 3, window)
    x = np.random.default_rng(0).normal(size=(2, 4, 5, 12)).astype("float32")
    layer(x)
    randomize(layer)
    output, weights, _ = layer.attend(x)
    wanted, weights_by_loops = expected(layer, x)
    np.testing.assert_allclose(ops.convert_to_numpy(weights), weights_by_loops, atol=1e-5)
    np.testing.assert_allclose(ops.convert_to_numpy(output), wanted, atol=1e-5)


def test_a_corner_has_four_neighbors_of_nine():
    mask = inside(4, 5, 3)
    assert mask.shape == (20, 9)
    assert mask[0].tolist() == [False] * 4 + [True, True, False, True, True]
    assert mask[7].all()


def test_far_cells_have_no_influence(randomize):
    layer = NeighborhoodAttention(12, 3, 3)
    x = np.random.default_rng(0).normal(size=(1, 6, 7, 12)).astype("float32")
    layer(x)
    randomize(layer)
    changed = x.copy()
    changed[0, 5, 6] += 1
    moved = np.abs(np.asarray(layer(changed)) - np.asarray(layer(x))).max(axis=-1)[0] > 1e-6
    assert {tuple(neighbor) for neighbor in np.argwhere(moved)} == {(4, 5), (4, 6), (5, 5), (5, 6)}


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match="window must be odd; got window=4"):
        NeighborhoodAttention(12, 3, 4)
    with pytest.raises(ValueError, match="num_heads must be even; got 3"):
        NeighborhoodAttention(12, 4)
    with pytest.raises(ValueError, match="position must be None; got position='rotary'"):
        NeighborhoodAttention(12, 3, position="rotary")
