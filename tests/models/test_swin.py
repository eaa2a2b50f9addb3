"""The Swin Transformer: the paper's counts, its windows, and images of any size."""

import math

import keras
import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.models.swin import PatchMerging, SwinBlock, fill_up

COUNTS = {"t": 28_288_354, "s": 49_606_258, "b": 87_768_224}
LARGE = {"l": 196_532_476}
THREE = dict(dim=6, depth=(2, 3, 1), num_heads=(2, 3, 4), mlp_dim=15, window=3)  # all sizes differ


def numpy(x):
    return keras.ops.convert_to_numpy(x)


def count(variant):
    model = create_model("swin", variant, num_classes=1000, initializer="zeros")
    model.build((None, 224, 224, 3))
    return model.count_params()


@pytest.mark.parametrize("variant", COUNTS)
def test_the_parameters_are_the_paper_s(variant):
    assert count(variant) == COUNTS[variant]


@pytest.mark.slow
@pytest.mark.parametrize("variant", LARGE)
def test_the_parameters_of_the_large_one_are_the_paper_s(variant):
    assert count(variant) == LARGE[variant]


@pytest.fixture
def images(draw):
    return draw(3, 16, 16, 3)


@pytest.fixture
def model(randomise, images):
    return randomise(create_model("swin", "tiny", num_classes=5), images)


def test_an_image_becomes_a_logit_for_each_class(model, images):
    assert numpy(model(images)).shape == (3, 5)


def test_images_do_not_see_each_other(model, images):
    alone = np.concatenate([numpy(model(images[i : i + 1])) for i in range(3)])
    np.testing.assert_allclose(alone, numpy(model(images)), atol=1e-4)


def test_where_a_patch_stands_matters(model, images):
    assert np.abs(numpy(model(images[:, ::-1])) - numpy(model(images))).max() > 1e-3


def test_it_comes_back_from_a_file(images, randomise, tmp_path):
    model = randomise(create_model("swin", "tiny", num_classes=5, drop_path=0.1), images)
    model.save(tmp_path / "swin.keras")
    again = keras.saving.load_model(tmp_path / "swin.keras")
    assert again.get_config() == model.get_config()
    np.testing.assert_allclose(numpy(again(images)), numpy(model(images)), atol=1e-6)


def test_it_learns_one_batch(images):
    model = create_model("swin", "tiny", num_classes=3, drop_path=0.1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.build(images.shape)
    model.compile(keras.optimizers.SGD(0.2), loss, jit_compile=False)
    losses = model.fit(images, np.array([2, 0, 1]), epochs=20, verbose=0).history["loss"]
    assert losses[-1] < 0.1 < losses[0]


def regions(height, width, window, shift):
    """Which cells see each other after a shift, (N, N), as the paper cuts the edge windows.

    The grid is rolled, its windows are numbered, and in each of the two axes the last window is
    cut where the cells begin that came round the edge.
    """
    label = np.zeros((height, width, 4), int)
    for axis, side in enumerate((height, width)):
        move = shift if side > window else 0
        place = np.arange(side)
        came_round = place >= side - move
        line = np.stack([place // window, came_round])  # (2, side)
        line = np.roll(line, move, axis=1)  # back to where the cells stand
        shape = (2, side, 1) if axis == 0 else (2, 1, side)
        label[..., 2 * axis : 2 * axis + 2] = np.moveaxis(
            np.broadcast_to(line.reshape(shape), (2, height, width)), 0, -1
        )
    label = label.reshape(height * width, 4)
    return (label[:, None] == label).all(-1)


@pytest.mark.parametrize("height, width", [(24, 36), (12, 48)])
def test_a_cell_sees_its_shifted_window_alone(height, width, draw, randomise):
    images = draw(2, height, width, 3)
    model = randomise(create_model("swin", "tiny", num_classes=5, **THREE), images)
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
            seen = (weights > 0).all(axis=(0, 1))
            np.testing.assert_array_equal(seen, regions(*grid, 3, shift))
            assert not (weights > 0).any(axis=(0, 1))[~seen].any()


@pytest.mark.parametrize("height, width", [(1, 2), (23, 30), (5, 31)])
def test_images_of_any_size_are_read(height, width, draw, randomise):
    images = draw(2, height, width, 3)
    model = randomise(create_model("swin", "tiny", num_classes=5, **THREE), images)
    logits = numpy(model(images))
    assert logits.shape == (2, 5) and np.isfinite(logits).all()
    for name, weights in model.attention_maps(images).items():
        np.testing.assert_allclose(numpy(weights).sum(-1), 1, atol=1e-5, err_msg=name)
    padded = np.pad(images, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)))
    np.testing.assert_allclose(numpy(model(padded)), logits, atol=1e-5)


def test_what_fills_up_the_windows_is_not_seen(draw, randomise):
    """A grid of 4 × 5 cells in windows of 3: of one block, each cell against its definition."""
    x = draw(2, 4, 5, 6)
    block = randomise(SwinBlock(6, 2, 15, window=3, shift=1), x)
    whole = numpy(block(x)[0])
    window = numpy(block(x[:, 1:4, 1:4])[0])  # one whole shifted window, alone
    np.testing.assert_allclose(whole[:, 1:4, 1:4], window, atol=1e-5)
    corner = numpy(block(x[:, :1, :1])[0])  # the window before it holds one cell
    np.testing.assert_allclose(whole[:, :1, :1], corner, atol=1e-5)


def test_four_cells_become_one(draw, randomise):
    x = draw(2, 5, 3, 4)
    merge = randomise(PatchMerging(), x)
    scale, offset = numpy(merge.merge_norm.scale), numpy(merge.merge_norm.offset)
    filled = np.zeros((2, 6, 4, 4))
    filled[:, :5, :3] = x
    found = numpy(merge(x))
    assert found.shape == (2, 3, 2, 8)
    for r, c in np.ndindex(3, 2):
        corners = [filled[:, 2 * r + down, 2 * c + right] for right in (0, 1) for down in (0, 1)]
        cell = np.concatenate(corners, axis=-1)
        cell = (cell - cell.mean(-1, keepdims=True)) / np.sqrt(cell.var(-1, keepdims=True) + 1e-6)
        expected = (cell * scale + offset) @ numpy(merge.reduction.kernel)
        np.testing.assert_allclose(found[:, r, c], expected, atol=1e-4)


def test_filling_up_is_at_the_far_edges(draw):
    x = draw(1, 3, 4, 2)
    filled = numpy(fill_up(x, 4))
    np.testing.assert_array_equal(filled[:, :3], x)
    assert filled.shape == (1, 4, 4, 2) and not filled[:, 3:].any()


def test_drop_path_grows_with_the_depth():
    model = create_model("swin", "tiny", num_classes=5, **THREE, drop_path=0.5)
    rates = [block.skip.rate for block in model.blocks]
    np.testing.assert_allclose(rates, [0, 0.1, 0.2, 0.3, 0.4, 0.5])


def test_maps_are_made_before_the_first_call_too(images):
    model = create_model("swin", "tiny", num_classes=5)
    maps = model.attention_maps(images)
    assert numpy(maps["block_0/self"]).shape == (3, 2, 64, 64)


def test_half_precision_stays_finite(images):
    model = create_model("swin", "tiny", num_classes=5, dtype="mixed_float16")
    logits = model(images)
    assert keras.backend.standardize_dtype(logits.dtype) == "float16"
    assert np.isfinite(numpy(logits)).all()


def test_wrong_options_are_named():
    def make(**options):
        return create_model("swin", "tiny", num_classes=5, **options)

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
