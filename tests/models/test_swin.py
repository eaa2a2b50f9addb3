"""The Swin Transformer: published parameter counts, its windows, and images of any size."""

import math

import keras
import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.models.swin import PatchMerging, SwinBlock, pad_to_multiple

COUNTS = {"t": 28_288_354, "s": 49_606_258, "b": 87_768_224}
LARGE = {"l": 196_532_476}
THREE = dict(dim=6, depth=(2, 3, 1), num_heads=(2, 3, 4), mlp_dim=15, window=3)  # all sizes differ


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def count(variant):
    return create_model("swin", variant, num_classes=1000, initializer="zeros").count_params()


@pytest.mark.parametrize("variant", COUNTS)
def test_the_parameter_counts_are_the_published_ones(variant):
    assert count(variant) == COUNTS[variant]


@pytest.mark.slow
@pytest.mark.parametrize("variant", LARGE)
def test_the_parameter_count_of_the_large_variant_is_the_published_one(variant):
    assert count(variant) == LARGE[variant]


@pytest.fixture
def images(draw):
    return draw(3, 16, 16, 3)


@pytest.fixture
def model(randomize, images):
    return randomize(create_model("swin", "test", num_classes=5), images)


def test_the_position_of_a_patch_matters(model, images):
    assert np.abs(numpy(model(images[:, ::-1])) - numpy(model(images))).max() > 1e-3


def test_it_learns_one_batch(images):
    model = create_model("swin", "test", num_classes=3, drop_path=0.1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.2), loss, jit_compile=False)
    losses = model.fit(images, np.array([2, 0, 1]), epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.1 < losses[0]


def attention_mask(height, width, window, shift):
    """Which cells attend to each other after a shift, (N, N), as the paper cuts the edge windows.

    The grid is rolled and its windows are numbered; on each axis the last window is cut before the
    cells that were rolled over the edge.
    """
    label = np.zeros((height, width, 4), int)
    for axis, side in enumerate((height, width)):
        move = shift if side > window else 0
        index = np.arange(side)
        line = np.stack([index // window, index >= side - move])  # (2, side)
        line = np.roll(line, move, axis=1)  # back to the cells' positions
        shape = (2, side, 1) if axis == 0 else (2, 1, side)
        label[..., 2 * axis : 2 * axis + 2] = np.moveaxis(
            np.broadcast_to(line.reshape(shape), (2, height, width)), 0, -1
        )
    label = label.reshape(height * width, 4)
    return (label[:, None] == label).all(-1)


@pytest.mark.parametrize("height, width", [(24, 36), (12, 48)])
def test_a_cell_attends_to_its_shifted_window_only(height, width, draw, randomize):
    images = draw(2, height, width, 3)
    model = randomize(create_model("swin", "test", num_classes=5, **THREE), images)
    maps = model.attention_maps(images)
    assert list(maps) == [f"block_{i}/self" for i in range(6)]
    shifts = (0, 1, 0, 1, 0, 0)
    for i, (weights, shift) in enumerate(zip(maps.values(), shifts, strict=True)):
        stage = (0, 0, 1, 1, 1, 2)[i]
        grid = [math.ceil(side / 2 / 2**stage) for side in (height, width)]
        weights, cells = numpy(weights), grid[0] * grid[1]
        assert weights.shape == (2, (2, 3, 4)[stage], cells, cells)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        if all(side % 3 == 0 for side in grid):
            attended = (weights > 0).all(axis=(0, 1))
            np.testing.assert_array_equal(attended, attention_mask(*grid, 3, shift))
            assert not (weights > 0).any(axis=(0, 1))[~attended].any()


@pytest.mark.parametrize("height, width", [(1, 2), (23, 30), (5, 31)])
def test_images_may_have_any_size(height, width, draw, randomize):
    images = draw(2, height, width, 3)
    model = randomize(create_model("swin", "test", num_classes=5, **THREE), images)
    logits = numpy(model(images))
    assert logits.shape == (2, 5) and np.isfinite(logits).all()
    for name, weights in model.attention_maps(images).items():
        np.testing.assert_allclose(numpy(weights).sum(-1), 1, atol=1e-5, err_msg=name)
    padded = np.pad(images, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)))
    np.testing.assert_allclose(numpy(model(padded)), logits, atol=1e-5)


def test_padding_of_windows_is_masked(draw, randomize):
    """A grid of 4 × 5 cells in windows of 3, padded on all sides."""
    x = draw(2, 4, 5, 6)
    block = randomize(SwinBlock(6, 2, 15, window=3, shift=1), x)
    whole = numpy(block(x))
    window = numpy(block(x[:, 1:4, 1:4]))  # one whole shifted window, alone
    np.testing.assert_allclose(whole[:, 1:4, 1:4], window, atol=1e-5)
    corner = numpy(block(x[:, :1, :1]))  # the window before it holds one cell
    np.testing.assert_allclose(whole[:, :1, :1], corner, atol=1e-5)


def test_merging_is_its_definition_in_loops(draw, randomize):
    x = draw(2, 5, 3, 4)
    merge = randomize(PatchMerging(), x)
    scale, offset = numpy(merge.merge_norm.scale), numpy(merge.merge_norm.offset)
    padded_x = np.zeros((2, 6, 4, 4))
    padded_x[:, :5, :3] = x
    merged = numpy(merge(x))
    assert merged.shape == (2, 3, 2, 8)
    for r, c in np.ndindex(3, 2):
        corners = [padded_x[:, 2 * r + down, 2 * c + right] for right in (0, 1) for down in (0, 1)]
        cell = np.concatenate(corners, axis=-1)
        cell = (cell - cell.mean(-1, keepdims=True)) / np.sqrt(cell.var(-1, keepdims=True) + 1e-6)
        expected = (cell * scale + offset) @ numpy(merge.reduction.kernel)
        np.testing.assert_allclose(merged[:, r, c], expected, atol=1e-4)


def test_padding_is_at_the_bottom_and_right_edges(draw):
    x = draw(1, 3, 4, 2)
    padded_x = numpy(pad_to_multiple(x, 4))
    np.testing.assert_array_equal(padded_x[:, :3], x)
    assert padded_x.shape == (1, 4, 4, 2) and not padded_x[:, 3:].any()


def test_drop_path_grows_with_the_depth():
    model = create_model("swin", "test", num_classes=5, **THREE, drop_path=0.5)
    rates = [block.drop_path_layer.rate for block in model.blocks]
    np.testing.assert_allclose(rates, [0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_half_precision_stays_finite(images):
    model = create_model("swin", "test", num_classes=5, dtype="mixed_float16")
    logits = model(images)
    assert keras.backend.standardize_dtype(logits.dtype) == "float16"
    assert np.isfinite(numpy(logits)).all()


def test_wrong_options_are_named():
    def make(**options):
        return create_model("swin", "test", num_classes=5, **options)

    with pytest.raises(ValueError, match="depth must be a list .* for each stage; got 2"):
        make(depth=2)
    with pytest.raises(ValueError, match="num_heads must be a whole number above zero; .*=0"):
        make(num_heads=(2, 0))
    with pytest.raises(ValueError, match=r"for each stage; got depth=\(2, 2, 2\), num_heads=\(2, "):
        make(depth=(2, 2, 2))
    with pytest.raises(ValueError, match="num_heads must divide dim; got num_heads=3, dim=16"):
        make(num_heads=(2, 3))
    with pytest.raises(ValueError, match=r"must be known; got images \(None, None, 16, 3\)"):
        make()(keras.Input((None, 16, 3)))
