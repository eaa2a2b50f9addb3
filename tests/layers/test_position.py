"""Positions against loops over positions and dimensions."""

import math

import numpy as np
import pytest
from keras import ops
from keras.ops import convert_to_numpy

from tfx_transformer.layers.position import (
    IndexPosition,
    LearnedPosition,
    RelativePosition,
    RotaryPosition,
    SinCos2DPosition,
    SinusoidalPosition,
)

B, T, S, D, H = 2, 5, 7, 8, 3
LAYOUTS = pytest.mark.parametrize("layout", ["interleaved", "halves"])


def zeros(length, dim=D):
    return np.zeros((B, length, dim), "float32")


def check(result, expected, atol=1e-5):
    result = convert_to_numpy(result)
    np.testing.assert_allclose(result, np.broadcast_to(expected, result.shape), atol=atol)


def waves(length, layout, base=10_000, start=0):
    table = np.zeros((length, D))
    for t, i in np.ndindex(length, D // 2):
        angle = (start + t) / base ** (2 * i / D)
        sine, cosine = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, D // 2 + i)
        table[t, sine], table[t, cosine] = math.sin(angle), math.cos(angle)
    return table


@LAYOUTS
@pytest.mark.parametrize(("base", "start"), [(10_000, 0), (10_000, 30), (100, 3)])
def test_sinusoids_are_those_of_the_paper(layout, base, start, draw):
    x = draw(B, T, D)
    layer = SinusoidalPosition(layout, base)
    check(layer(x, start=start), x + waves(T, layout, base, start))


def test_positions_may_come_from_a_table(draw):
    layer, x = SinusoidalPosition(), draw(B, 2, D)
    table = layer.precompute(T, D)
    check(layer(x, start=ops.convert_to_tensor(3), table=table), layer(x, start=3))


def test_the_start_may_be_a_tensor():
    layer = SinusoidalPosition()
    check(layer(zeros(1), start=ops.convert_to_tensor(4)), waves(1, "interleaved", start=4))


def test_a_position_can_be_appended(draw):
    x = draw(B, T, D)
    y = convert_to_numpy(SinusoidalPosition(combine="concat")(x, start=2))
    np.testing.assert_array_equal(y[..., :D], x)
    check(y[..., D:], waves(T, "interleaved", start=2))


@pytest.mark.parametrize("combine", ["add", "concat"])
def test_a_position_can_be_projected(combine, draw, randomize):
    x = draw(B, T, D)
    layer = randomize(SinusoidalPosition(combine=combine, project=True), x)
    kernel, bias = (convert_to_numpy(weight) for weight in layer.projection.weights)
    position = waves(T, "interleaved") @ kernel + bias
    if combine == "add":
        check(layer(x), x + position)
    else:
        check(layer(x)[..., D:], position)


def test_the_index_is_the_step_number(draw, randomize):
    x = draw(B, T, D)
    y = convert_to_numpy(IndexPosition("concat", project=False)(x, start=3))
    np.testing.assert_array_equal(y[..., :D], x)
    np.testing.assert_array_equal(y[..., D], [[3, 4, 5, 6, 7]] * B)

    layer = randomize(IndexPosition(), x)
    kernel, bias = (convert_to_numpy(weight) for weight in layer.projection.weights)
    check(layer(x, start=3), x + np.array([t * kernel[0] + bias for t in range(3, 3 + T)]))


def test_a_bare_index_cannot_be_added():
    with pytest.raises(ValueError, match="project must be True .*; got project=False"):
        IndexPosition(project=False)


@pytest.mark.parametrize("grid", [(2, 3), (3, 2), None])
def test_sincos_2d_encodes_column_and_row(grid, draw):
    rows, columns = grid or (3, 3)
    x = draw(B, rows * columns, D)
    expected = np.zeros((rows * columns, D))
    quarter = D // 4
    for row, column, i in np.ndindex(rows, columns, quarter):
        frequency = 100 ** (-i / (quarter - 1))
        for j, wave in enumerate(
            (
                math.sin(column * frequency),
                math.cos(column * frequency),
                math.sin(row * frequency),
                math.cos(row * frequency),
            )
        ):
            expected[row * columns + column, j * quarter + i] = wave
    check(SinCos2DPosition(base=100)(x, grid=grid), x + expected)


def test_learned_positions_are_a_slice_of_the_table(draw, randomize):
    x = draw(B, T, D)
    layer = randomize(LearnedPosition(S), x)
    table = convert_to_numpy(layer.table)
    check(layer(x), x + table[:T])
    check(layer(x, start=2), x + table[2:])
    check(layer(x, start=ops.convert_to_tensor(1)), x + table[1:6])


def test_a_sequence_longer_than_the_table_is_refused(draw):
    with pytest.raises(ValueError, match="must fit into max_length=7; got length 8"):
        LearnedPosition(S)(draw(B, 8, D))
    with pytest.raises(ValueError, match="must fit into max_length=7; got length 8"):
        LearnedPosition(S)(draw(B, T, D), start=3)


@pytest.fixture
def grid_layer(draw, randomize):
    return randomize(LearnedPosition(12, grid=(3, 4)), draw(B, 12, D))


def test_an_image_of_the_same_size_has_the_same_positions(grid_layer, draw):
    x, table = draw(B, 12, D), convert_to_numpy(grid_layer.table)
    for grid in (None, (3, 4), [3, 4]):
        check(grid_layer(x, grid=grid), x + table, atol=1e-6)


@pytest.mark.parametrize("grid", [(5, 6), (6, 8), (2, 3), (4, 3)])
def test_a_constant_table_stays_constant(grid, grid_layer):
    one_row = convert_to_numpy(grid_layer.table)[:1]
    grid_layer.table.assign(np.repeat(one_row, 12, axis=0))
    check(grid_layer(zeros(math.prod(grid)), grid=grid), one_row)


@pytest.mark.parametrize("grid", [(6, 8), (2, 3), (5, 3)])
def test_a_resized_table_keeps_its_direction(grid, grid_layer):
    table = np.zeros((3, 4, D))
    table[..., 0] = np.arange(3)[:, None]  # feature 0 grows downwards
    table[..., 1] = np.arange(4)[None, :]  # feature 1 to the right
    grid_layer.table.assign(table.reshape(12, D))
    result = convert_to_numpy(grid_layer(zeros(math.prod(grid)), grid=grid))[0].reshape(*grid, D)
    assert (np.diff(result[..., 0], axis=0) > 0.1).all()
    assert (np.diff(result[..., 1], axis=1) > 0.1).all()
    np.testing.assert_allclose(np.ptp(result[..., 0], axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(np.ptp(result[..., 1], axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(result[..., :2].mean(axis=(0, 1)), [1.0, 1.5], atol=1e-4)


def test_every_position_counts_when_an_image_shrinks(draw):
    layer = LearnedPosition(27, grid=(3, 9))
    layer.build((None, 27, D))

    def shrink(table):
        layer.table.assign(table)
        return convert_to_numpy(layer(zeros(3), grid=(1, 3)))

    table = draw(27, D)
    before = shrink(table)
    for cell in range(27):  # without antialiasing only the middle row's 1, 4 and 7 would count
        changed = table.copy()
        changed[cell] += 1.0
        assert np.abs(shrink(changed) - before).max() > 1e-3


def test_a_square_image_needs_no_grid(grid_layer):
    x = zeros(16)
    check(grid_layer(x), convert_to_numpy(grid_layer(x, grid=(4, 4))))


def test_wrong_grids_are_refused(grid_layer, draw):
    with pytest.raises(ValueError, match=r"max_length=12 cells; got grid=\(3, 5\)"):
        LearnedPosition(12, grid=(3, 5))
    with pytest.raises(ValueError, match="grid=.* is needed .*; got 10 patches"):
        grid_layer(draw(B, 10, D))
    with pytest.raises(ValueError, match="grid=.* is needed .*; got 10 patches"):
        SinCos2DPosition()(draw(B, 10, D))


@pytest.mark.parametrize("layer", [SinCos2DPosition(), LearnedPosition(12, grid=(3, 4))])
def test_a_grid_must_have_as_many_cells_as_patches(layer, draw):
    with pytest.raises(ValueError, match=r"fit into grid=\(2, 5\); got 12"):
        layer(draw(B, 12, D), grid=(2, 5))


def rotate(x, position, layout, base):
    """Pairs as complex numbers, each rotated by its own angle."""
    half = len(x) // 2
    rotated = np.zeros_like(x)
    for i in range(half):
        one, other = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, half + i)
        z = complex(x[one], x[other]) * np.exp(1j * position / base ** (i / half))
        rotated[one], rotated[other] = z.real, z.imag
    return rotated


@LAYOUTS
@pytest.mark.parametrize(("base", "start"), [(10_000, 0), (100, 4)])
def test_rotary_rotates_pairs_like_complex_numbers(layout, base, start, draw):
    x = draw(B, H, T, D)
    y = convert_to_numpy(RotaryPosition(layout, base)(x, start=start))
    for b, h, t in np.ndindex(B, H, T):
        check(y[b, h, t], rotate(x[b, h, t], start + t, layout, base))


@LAYOUTS
def test_rotary_products_depend_on_the_distance_alone(layout, draw):
    q, k = draw(B, H, 1, D), draw(B, H, 1, D)
    layer = RotaryPosition(layout)

    def product(query_start, key_start):
        rotated = layer(q, start=query_start), layer(k, start=key_start)
        return (convert_to_numpy(rotated[0]) * convert_to_numpy(rotated[1])).sum(-1)

    for distance in (-3, 0, 6):
        check(product(20 + distance, 20), product(7 + distance, 7), atol=1e-4)
    assert np.abs(product(9, 7) - product(8, 7)).max() > 0.01
    check(product(0, 0), (q * k).sum(-1))


@pytest.mark.parametrize("start", [0, 4])
def test_relative_adds_a_bias_for_each_head_and_distance(start, draw, randomize):
    scores = draw(B, H, T, S)
    layer = randomize(RelativePosition(max_distance=2), scores)
    table = convert_to_numpy(layer.table)
    assert table.shape == (5, H)
    y = convert_to_numpy(layer(scores, start=start))
    for b, h, t, s in np.ndindex(B, H, T, S):
        distance = min(max(s - (start + t), -2), 2)
        check(y[b, h, t, s], scores[b, h, t, s] + table[distance + 2, h])


@pytest.mark.parametrize(
    ("layer", "width"),
    [(SinusoidalPosition(), 7), (RotaryPosition(), 7), (SinCos2DPosition(), 6)],
    ids=["sinusoidal", "rotary", "sincos_2d"],
)
def test_an_indivisible_width_is_refused(layer, width, draw):
    x = draw(B, H, 4, width) if layer.acts_on == "heads" else draw(B, 4, width)
    with pytest.raises(ValueError, match=f"need a width divisible by [24]; got {width}"):
        layer(x)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (SinusoidalPosition, {"layout": "mixed"}, "unknown layout 'mixed'; known: interleaved"),
        (SinusoidalPosition, {"combine": "mul"}, "unknown combine 'mul'; known: add, concat"),
        (SinusoidalPosition, {"base": 0}, "got base=0"),
        (SinCos2DPosition, {"base": -1}, "got base=-1"),
        (RotaryPosition, {"layout": "mixed"}, "unknown layout 'mixed'"),
        (RelativePosition, {"max_distance": 0}, "got max_distance=0"),
        (LearnedPosition, {"max_length": 0}, "got max_length=0"),
    ],
)
def test_bad_arguments_are_named(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(**arguments)
