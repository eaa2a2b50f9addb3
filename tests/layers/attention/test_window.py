"""Shifted windows, cell by cell of the grid."""

import math

import numpy as np
import pytest
from keras.ops import convert_to_numpy

from tfx_transformer.layers.attention.window import WindowAttention

B, D, H, W = 2, 12, 3, 3
K = D // H
GRIDS = pytest.mark.parametrize(
    ("height", "width", "shift"),
    [
        (5, 7, 1),  # padded to 6 × 9
        (5, 7, 0),
        (5, 7, 2),
        (6, 9, 1),  # whole windows
        (3, 3, 1),  # one window: not shifted
        (3, 8, 1),  # one row of windows: shifted to the right only
        (2, 2, 1),  # less than one window
    ],
)


def dense(layer, x):
    return x @ convert_to_numpy(layer.kernel).astype("float64") + convert_to_numpy(layer.bias)


def moves(height, width, shift):
    """How far the windows are moved down and right."""
    return [shift if side > W else 0 for side in (height, width)]


def window_of(cell, move):
    """The window in which a cell lies; windows cut by the edge stay cut, so there is one at −1."""
    return (cell[0] - move[0]) // W, (cell[1] - move[1]) // W


def by_loops(layer, x, shift):
    """The output, and the weight of each key cell for each query cell."""
    height, width = x.shape[1:3]
    move = moves(height, width, shift)
    q = dense(layer.query, x)
    k, v = np.split(dense(layer.key_value, x), 2, axis=-1)
    table = convert_to_numpy(layer.table)
    weights = np.zeros((B, H, height, width, height, width))
    merged = np.zeros(x.shape)
    cells = list(np.ndindex(height, width))
    for b, h, cell in ((b, h, cell) for b in range(B) for h in range(H) for cell in cells):
        head = slice(h * K, (h + 1) * K)
        row = weights[b, h][cell]
        for other in cells:
            if window_of(other, move) == window_of(cell, move):
                down, right = cell[0] - other[0] + W - 1, cell[1] - other[1] + W - 1
                bias = table[down * (2 * W - 1) + right, h]
                row[other] = math.exp(q[b][cell][head] @ k[b][other][head] / math.sqrt(K) + bias)
        row /= row.sum()
        for other in cells:
            merged[b][cell][head] += row[other] * v[b][other][head]
    return dense(layer.out, merged), weights


@GRIDS
def test_a_cell_attends_to_its_window(height, width, shift, draw, randomize):
    x = draw(B, height, width, D)
    layer = randomize(WindowAttention(D, H, window=W, shift=shift), x)
    output, weights, _ = layer.attend(x)
    expected, cell_weights = by_loops(layer, x, shift)
    np.testing.assert_allclose(convert_to_numpy(output), expected, atol=1e-5)

    # The layer's weights are by window; compare them cell by cell of the grid.
    weights = convert_to_numpy(weights)
    rows, columns = math.ceil(height / W), math.ceil(width / W)
    assert weights.shape == (B, rows * columns, H, W * W, W * W)
    move = moves(height, width, shift)

    def cell(window, index):
        down = window // columns * W + index // W + move[0]
        right = window % columns * W + index % W + move[1]
        return down % (rows * W), right % (columns * W)

    def is_real(cell):
        return cell[0] < height and cell[1] < width

    for window, query, key in np.ndindex(rows * columns, W * W, W * W):
        one, other = cell(window, query), cell(window, key)
        if is_real(one):
            found = weights[:, window, :, query, key]
            wanted = cell_weights[:, :, *one, *other] if is_real(other) else 0.0
            np.testing.assert_allclose(found, np.broadcast_to(wanted, (B, H)), atol=1e-5)


@GRIDS
def test_on_grid_gives_the_scores_between_cells(height, width, shift, draw, randomize):
    x = draw(B, height, width, D)
    layer = randomize(WindowAttention(D, H, window=W, shift=shift), x)
    cells = height * width
    expected = by_loops(layer, x, shift)[1].reshape(B, H, cells, cells)
    found = convert_to_numpy(layer.on_grid(layer.attend(x)[1], height, width))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("shift", [0, 1])
def test_far_cells_have_no_influence(shift, draw, randomize):
    height, width = 5, 7
    x = draw(B, height, width, D)
    layer = randomize(WindowAttention(D, H, window=W, shift=shift), x)
    before = convert_to_numpy(layer(x))
    for touched in ((0, 0), (2, 3), (4, 6)):
        changed = x.copy()
        changed[:, *touched] += 1.0
        moved = np.abs(convert_to_numpy(layer(changed)) - before).max(axis=(0, 3)) > 1e-5
        for cell in np.ndindex(height, width):
            near = window_of(cell, (shift, shift)) == window_of(touched, (shift, shift))
            assert moved[cell] == near


def test_the_bias_depends_on_the_offset_from_key_to_query(draw, randomize):
    x = draw(B, W, W, D)
    layer = randomize(WindowAttention(D, H, window=W), x)
    table = np.zeros(layer.table.shape)
    down, right = 1, -2  # a query one row below its key and two columns left of it
    table[(down + W - 1) * (2 * W - 1) + right + W - 1] = 50.0
    layer.table.assign(table)
    weights = convert_to_numpy(layer.attend(x)[1])[:, 0]  # (B, H, w², w²)
    for query, key in ((3, 2), (6, 5)):
        np.testing.assert_allclose(weights[:, :, query, key], 1.0, atol=1e-5)
    assert (weights[:, :, 2, 3] < 0.99).all()


def test_a_cell_alone_in_its_window_attends_to_itself(draw, randomize):
    x = draw(B, 5, 7, D)  # with shift 1 the first cell's window holds only itself
    layer = randomize(WindowAttention(D, H, window=W, shift=1), x)
    value = np.split(dense(layer.key_value, x[:, 0, 0]), 2, axis=-1)[1]
    output = convert_to_numpy(layer(x))
    np.testing.assert_allclose(output[:, 0, 0], dense(layer.out, value), atol=1e-5)


def test_dropout_is_only_in_training(draw, randomize):
    x = draw(B, 5, 7, D)
    layer = randomize(WindowAttention(D, H, window=W, dropout=0.5), x)
    expected = by_loops(layer, x, shift=0)[0]
    np.testing.assert_allclose(convert_to_numpy(layer(x, training=False)), expected, atol=1e-5)
    assert np.abs(convert_to_numpy(layer(x, training=True)) - expected).max() > 0.1


def test_bad_arguments_are_named(draw):
    with pytest.raises(ValueError, match="shift < window=3; got shift=3"):
        WindowAttention(D, H, window=3, shift=3)
    with pytest.raises(ValueError, match="window=3; got shift=-1"):
        WindowAttention(D, H, window=3, shift=-1)
    with pytest.raises(ValueError, match="got window=0"):
        WindowAttention(D, H, window=0)
    with pytest.raises(ValueError, match="x must have a known height and width; got shape"):
        WindowAttention(D, H).build((None, None, 7, D))


def test_a_wrong_width_and_another_position_are_refused(draw):
    with pytest.raises(ValueError, match="x must be dim=12 wide; got shape"):
        WindowAttention(12, 3, window=2)(draw(2, 4, 6, 8))
    with pytest.raises(ValueError, match="position must be None; got position='rotary'"):
        WindowAttention(12, 3, position="rotary")
