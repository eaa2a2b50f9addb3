"""The plots are checked by the artists of the saved figure, or by pixels."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from tfx_transformer.visualization.images import (
    plot_distances,
    plot_filters,
    plot_image_heads,
    plot_predictions,
    plot_rollout,
    plot_similarities,
)

NAMES = ["고양이", "犬と猫", "Straße", "cœur", "$x$"]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


PLOTS = {  # one of each, with letters of all languages, with values by seed
    "rollout": lambda path, seed: plot_rollout(
        noise(21, 35, 3), noise(3, 5, seed=seed), path, "사진 写真 é"
    ),
    "heads": lambda path, seed: plot_image_heads(
        noise(21, 35, 1), noise(7, 3, 5, seed=seed), path, "머리 頭"
    ),
    "distances": lambda path, seed: plot_distances(noise(5, 3, seed=seed), path, "거리 距離"),
    "similarities": lambda path, seed: plot_similarities(
        noise(6, 6, seed=seed), (2, 3), path, "위치 位置"
    ),
    "filters": lambda path, seed: plot_filters(noise(7, 4, 4, 3, seed=seed), path, "필터 係数"),
    "predictions": lambda path, seed: plot_predictions(
        noise(5, 9, 8, 3, seed=seed), NAMES, path, "예측 予測", [True, False, False, True, False]
    ),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_a_file_of_its_data(name, tmp_path):
    plot = PLOTS[name]
    path = plot(tmp_path / "new" / "x.png", 0)
    assert path == tmp_path / "new" / "x.png"
    height, width, _ = imread(path).shape
    assert 150 < height < 1000 and 150 < width < 1800
    assert plot(str(tmp_path / "other.png"), 1).read_bytes() != path.read_bytes()
    with pytest.raises(ValueError, match="path must end in .png, .svg, .pdf; got path='x.gif'"):
        plot("x.gif", 0)


@pytest.mark.parametrize("name", ["rollout", "predictions"])
def test_every_ending_writes_its_format(name, tmp_path):
    assert PLOTS[name](tmp_path / "x.pdf", 0).read_bytes().startswith(b"%PDF-")
    assert b"<svg" in PLOTS[name](tmp_path / "x.svg", 0).read_bytes()


def test_threads_plot_the_same_and_change_no_setting(tmp_path):
    settings = {key: matplotlib.rcParams[key] for key in matplotlib.rcParams}
    names = ["rollout", "heads", "predictions"]
    alone = [PLOTS[name](tmp_path / f"{name}.png", 0).read_bytes() for name in names]
    with ThreadPoolExecutor(len(names)) as pool:
        together = pool.map(lambda name: PLOTS[name](tmp_path / f"{name}_2.png", 0), names)
        assert [path.read_bytes() for path in together] == alone
    assert {key: matplotlib.rcParams[key] for key in matplotlib.rcParams} == settings


def test_uint8_and_floats_gray_and_rgb_give_the_same_plot(tmp_path):
    image = (256 * noise(9, 7, 1)).astype("uint8")
    image[0, :2, 0] = 0, 255
    rounded = image / 255
    rounded[0, :2, 0] = -5e-4, 1 + 5e-4
    images = [image, image / 255, (image / 255).astype("float32"), image.repeat(3, 2), rounded]
    first, *others = [
        imread(plot_predictions([same], ["x"], tmp_path / f"{index}.png"))
        for index, same in enumerate(images)
    ]
    for other in others:
        np.testing.assert_allclose(other, first, atol=1.1 / 255)


def test_the_heat_map_is_brightest_over_its_patch_and_smooth_between(tmp_path):
    rollout = np.zeros((3, 5))
    rollout[2, 1] = 1
    pink = np.full((30, 50, 3), [0.8, 0.2, 0.4])
    pixels = imread(plot_rollout(pink, rollout, tmp_path / "x.png"))[..., :3]
    is_pink = np.isclose(pixels, pink[0, 0], atol=0.01).all(axis=-1)
    rows, columns = (np.flatnonzero(is_pink.any(axis=axis)) for axis in (1, 0))
    patch = np.ptp(rows) / 3
    assert patch > 80 and np.ptp(columns) / 5 == pytest.approx(patch, abs=1)
    left = columns[-1] + 2  # from here to the heat map it is white
    left += np.flatnonzero((pixels[rows[10], left:] < 0.99).any(axis=-1))[0]
    over = pixels[rows[0] : rows[-1] + 1, left : left + len(columns)]
    brightness = over @ [0.3, 0.6, 0.1]
    row, column = np.argwhere(brightness > brightness.max() - 0.02).mean(axis=0)
    assert column == pytest.approx(1.5 * patch, abs=5) and 2.4 * patch < row < 3 * patch
    along = brightness[int(2.5 * patch), int(1.5 * patch) : int(2.5 * patch)]  # to the next patch
    assert (np.diff(along) < 0.01).all() and np.abs(np.diff(along)).max() < 0.03
    patch = int(patch)
    assert brightness[2:patch, -patch:-2].std() < 0.01  # far away there is no weight


@pytest.mark.parametrize("num_heads, rows", [(1, 1), (3, 1), (12, 3)])
def test_heads_share_colors_beside_the_image(num_heads, rows, saved, boxes, overlap, tmp_path):
    maps = noise(num_heads, 3, 5)
    plot_image_heads(noise(12, 20, 3), maps, tmp_path / "x.png")
    first, *panels, bar = saved[0].axes
    assert first.images[0].get_array().shape == (12, 20, 3)
    assert bar.get_ylabel() == "attention weight"
    for panel, values in zip(panels, maps, strict=True):
        picture, heat_map = panel.images
        assert picture.get_array().shape == (12, 20) and 0 < heat_map.get_alpha() < 1
        np.testing.assert_array_equal(heat_map.get_array(), values)
        assert heat_map.get_clim() == (0, maps.max())
        assert heat_map.get_extent() == picture.get_extent()
    assert [panel.get_title() for panel in panels] == [f"head {i + 1}" for i in range(num_heads)]
    edges = boxes([first, *panels])
    left, bottom, right, top = edges.T
    assert not overlap(edges) and (left[1:] > right[0]).all()
    assert len(set(top[1:].round(1))) == rows
    np.testing.assert_allclose((right - left) / (top - bottom), 20 / 12, rtol=1e-3)


def test_heads_without_attention_are_dark(saved, tmp_path):
    plot_image_heads(noise(4, 4, 3), np.zeros((2, 3, 5)), tmp_path / "x.png")
    assert saved[0].axes[1].images[1].get_clim() == (0, 1)


def test_a_nearly_even_rollout_has_nearly_one_color(saved, tmp_path):
    rollout = 0.06 + 0.001 * noise(4, 4)
    plot_rollout(noise(4, 4, 3), rollout, tmp_path / "x.png")
    _, right, bar = saved[0].axes
    heat_map = right.images[1]
    assert heat_map.get_clim() == (0, rollout.max()) and bar.get_ylim() == (0, rollout.max())
    assert np.ptp(heat_map.cmap(heat_map.norm(rollout)), axis=(0, 1)).max() < 0.05


@pytest.mark.parametrize("depth, num_heads", [(1, 1), (12, 3), (24, 16)])
def test_distances_are_dots_by_block_and_their_mean_a_line(depth, num_heads, saved, tmp_path):
    distances = 50 * noise(depth, num_heads)
    plot_distances(distances, tmp_path / "x.png")
    axes = saved[0].axes[0]
    *dots, line = axes.lines
    np.testing.assert_array_equal([dot.get_ydata() for dot in dots], distances.T)
    assert {dot.get_linestyle() for dot in dots} == {"None"} and line.get_linestyle() == "-"
    for plotted in axes.lines:
        np.testing.assert_array_equal(plotted.get_xdata(), range(1, depth + 1))
    np.testing.assert_allclose(line.get_ydata(), distances.sum(axis=1) / num_heads)
    low, high = axes.get_ylim()
    assert low == 0 and distances.max() < high < 1.2 * distances.max()
    texts = [text.get_text() for text in saved[0].legends[0].texts]
    assert texts == ["one head", "mean of the heads"]


@pytest.mark.parametrize(
    "grid, rows, columns",
    [
        ((2, 3), [0, 1], [0, 1, 2]),
        ((5, 30), range(5), range(0, 30, 3)),
        ((15, 1), range(0, 15, 2), [0]),
    ],
)
def test_each_position_or_every_nth_has_a_map_of_its_row(grid, rows, columns, saved, tmp_path):
    count = grid[0] * grid[1]
    similarity = noise(count, count) - 0.5
    path = plot_similarities(similarity, grid, tmp_path / "x.png")
    axes, bar = saved[0].axes
    assert bar.get_ylabel() == "cosine similarity" and axes.images[0].get_clim() == (-1, 1)
    assert [text.get_text() for text in axes.get_xticklabels()] == [str(x + 1) for x in columns]
    assert [text.get_text() for text in axes.get_yticklabels()] == [str(y + 1) for y in rows]
    tiles = axes.images[0].get_array()
    assert tiles.count() == len(rows) * len(columns) * count  # the rest is masked: gaps
    for (y, row), (x, column) in itertools.product(
        zip(axes.get_yticks(), rows, strict=True), zip(axes.get_xticks(), columns, strict=True)
    ):
        top, left = round(y - (grid[0] - 1) / 2), round(x - (grid[1] - 1) / 2)
        expected = similarity[row * grid[1] + column].reshape(grid)
        np.testing.assert_array_equal(tiles[top : top + grid[0], left : left + grid[1]], expected)
    assert max(imread(path).shape) / 150 < 12  # inches


@pytest.mark.parametrize("channels", [1, 3])
def test_filters_are_in_order(channels, saved, boxes, tmp_path):
    filters = noise(7, 4, 4, channels)
    plot_filters(filters, tmp_path / "x.png")
    for axes, values in zip(saved[0].axes, filters, strict=True):
        expected = values.repeat(3 // channels, axis=2)
        np.testing.assert_array_equal(axes.images[0].get_array(), expected)
    corners = [(round(-top), round(left)) for left, _, _, top in boxes(saved[0].axes)]
    assert corners == sorted(corners) and len(set(corners)) == 7


def test_each_text_is_below_its_image_and_wrong_ones_are_red(saved, boxes, tmp_path):
    images = [noise(9, 9, 3), noise(5, 20, 1), noise(20, 5, 3), noise(9, 8, 3), noise(6, 6, 3)]
    texts = ["cat 98 %\ndog 1 %", "고양이", "$x$", "", "a long text which must be cut somewhere"]
    wrong = [False, True, False, False, True]
    plot_predictions(images, texts, tmp_path / "x.png", "t", wrong)
    labels = [axes.xaxis.label for axes in saved[0].axes]
    assert [label.get_text() for label in labels[:4]] == texts[:4]
    assert labels[4].get_text().startswith("a long text") and labels[4].get_text().endswith("…")
    assert not any(label.get_parse_math() for label in labels)
    left, bottom, right, top = boxes(saved[0].axes).T
    ratios = [image.shape[1] / image.shape[0] for image in images]
    np.testing.assert_allclose((right - left) / (top - bottom), ratios, rtol=1e-3)
    text_left, _, text_right, text_top = boxes(labels).T
    np.testing.assert_allclose((left + right) / 2, (text_left + text_right) / 2, atol=1)
    assert (text_top < bottom).all() and (bottom - text_top < 20).all()
    red = matplotlib.colors.to_rgba("#c44e52")
    for axes, label, is_wrong in zip(saved[0].axes, labels, wrong, strict=True):
        assert (label.get_color() == "#c44e52") == is_wrong
        for spine in axes.spines.values():
            assert spine.get_visible() == is_wrong and spine.get_edgecolor() == red


@pytest.mark.parametrize("count", [1, 90])
def test_predictions_have_a_maximum_size_and_do_not_overlap(count, saved, boxes, overlap, tmp_path):
    texts = [f"Golden Retriever {i} %\n우리 집 고양이와 개 {i} %" for i in range(count)]
    path = plot_predictions(noise(count, 4, 4, 3), texts, tmp_path / "x.png", "title")
    assert max(imread(path).shape) / 150 < 18  # inches
    texts = [text for text in saved[0].findobj(Text) if text.get_text()]
    assert len(texts) == count + 1
    assert not overlap(boxes(texts + saved[0].axes))


IMAGE, EVEN = noise(4, 4, 3), np.ones((2, 2))


@pytest.mark.parametrize(
    "plot, message",
    [
        (lambda p: plot_rollout(IMAGE[0], EVEN, p), r"image must have shape \(h, w, 3\)"),
        (lambda p: plot_rollout(np.ones((4, 4, 2)), EVEN, p), r"got shape \(4, 4, 2\)"),
        (lambda p: plot_rollout(IMAGE[:0], EVEN, p), r"got shape \(0, 4, 3\)"),
        (lambda p: plot_rollout(255 * IMAGE, EVEN, p), "floats in 0..1; got .* in image"),
        (lambda p: plot_rollout(-IMAGE, EVEN, p), "floats in 0..1; got -0"),
        (lambda p: plot_rollout(math.nan * IMAGE, EVEN, p), "in 0..1; got nan in image"),
        (lambda p: plot_rollout(IMAGE > 0, EVEN, p), "image must be uint8.*of bool"),
        (lambda p: plot_rollout(np.ones((4, 4, 3), int), EVEN, p), "uint8.*of int64"),
        (lambda p: plot_rollout(IMAGE, np.ones(4), p), r"rollout must have axes \(R, S\)"),
        (lambda p: plot_rollout(IMAGE, [[-1.0]], p), "rollout must be .* not below 0; got -1.0"),
        (lambda p: plot_image_heads(IMAGE, EVEN, p), r"maps must have axes \(H, R, S\)"),
        (lambda p: plot_image_heads(IMAGE[0], np.ones((1, 2, 2)), p), "image must have shape"),
        (lambda p: plot_distances(np.ones(3), p), r"distances must have axes \(L, H\)"),
        (lambda p: plot_distances([[math.inf]], p), "distances must be finite.*; got inf"),
        (lambda p: plot_similarities(np.ones(4), (2, 2), p), r"similarity must have axes \(N, N\)"),
        (
            lambda p: plot_similarities(np.ones((4, 4)), (2, 3), p),
            r"grid must have N - num_tokens patches; got N=4, num_tokens=0, grid=\(2, 3\)",
        ),
        (lambda p: plot_similarities(np.ones((4, 4)), (-2, -2), p), "rows must be a whole number"),
        (lambda p: plot_filters([], p), "filters must contain at least one image; got none"),
        (lambda p: plot_filters(np.ones((2, 4, 4, 5)), p), r"got shape \(4, 4, 5\)"),
        (lambda p: plot_predictions([], [], p), "images must contain at least one image; got none"),
        (lambda p: plot_predictions([IMAGE], [], p), "texts must be 1 labels; got 0"),
        (lambda p: plot_predictions([IMAGE[0]], ["a"], p), "images must have shape"),
        (lambda p: plot_predictions([IMAGE], ["a"], p, "", []), r"wrong must be 1 booleans; got"),
        (lambda p: plot_predictions([IMAGE], ["a"], p, "", [1]), "booleans; got .* of int64"),
    ],
)
def test_bad_arguments_are_refused(plot, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plot(tmp_path / "new" / "x.png")
    assert not list(tmp_path.iterdir())
