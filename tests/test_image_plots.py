"""The pictures are read back: as artists, from the figure that was saved, or as pixels."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from tfx_transformer.image_plots import (
    plot_confusion,
    plot_distances,
    plot_filters,
    plot_image_heads,
    plot_predictions,
    plot_rollout,
    plot_similarities,
)

NAMES = ["고양이", "犬と猫", "Straße", "cœur", "$x$"]
COUNTS = [[9, 1, 0], [2, 8, 0], [0, 3, 0]]


@pytest.fixture
def saved(monkeypatch):
    """The figures in the order in which they were saved."""
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: figures.append(f) or save(f, *a, **k))
    return figures


def noise(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)


PICTURES = {  # one of each, with letters of all languages, and another of other numbers
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
    "confusion": lambda path, seed: plot_confusion(
        (100 * noise(5, 5, seed=seed)).astype(int), NAMES, path, "혼동 混同"
    ),
    "predictions": lambda path, seed: plot_predictions(
        noise(5, 9, 8, 3, seed=seed), NAMES, path, "예측 予測", [True, False, False, True, False]
    ),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_a_file_of_some_size_and_other_data_another_file(name, tmp_path):
    draw = PICTURES[name]
    path = draw(tmp_path / "new" / "x.png", 0)
    assert path == tmp_path / "new" / "x.png"
    height, width, _ = imread(path).shape
    assert 150 < height < 1000 and 150 < width < 1800
    assert draw(str(tmp_path / "other.png"), 1).read_bytes() != path.read_bytes()
    with pytest.raises(ValueError, match="path must end in .png, .svg, .pdf; got path='x.gif'"):
        draw("x.gif", 0)


@pytest.mark.parametrize("name", ["rollout", "predictions"])
def test_every_ending_writes_its_format(name, tmp_path):
    assert PICTURES[name](tmp_path / "x.pdf", 0).read_bytes().startswith(b"%PDF-")
    assert b"<svg" in PICTURES[name](tmp_path / "x.svg", 0).read_bytes()


def test_threads_draw_the_same_pictures_and_change_no_setting(tmp_path):
    settings = {key: matplotlib.rcParams[key] for key in matplotlib.rcParams}
    names = ["rollout", "confusion", "predictions"]
    alone = [PICTURES[name](tmp_path / f"{name}.png", 0).read_bytes() for name in names]
    with ThreadPoolExecutor(len(names)) as pool:
        together = pool.map(lambda name: PICTURES[name](tmp_path / f"{name}_2.png", 0), names)
        assert [path.read_bytes() for path in together] == alone
    assert {key: matplotlib.rcParams[key] for key in matplotlib.rcParams} == settings


def test_whole_numbers_and_floats_grey_and_three_channels_are_one_picture(tmp_path):
    image = (256 * noise(9, 7, 1)).astype("uint8")
    image[0, :2, 0] = 0, 255
    rounded = image / 255
    rounded[0, :2, 0] = -5e-4, 1 + 5e-4
    pictures = [image, image / 255, (image / 255).astype("float32"), image.repeat(3, 2), rounded]
    files = [
        plot_predictions([picture], ["x"], tmp_path / f"{index}.png").read_bytes()
        for index, picture in enumerate(pictures)
    ]
    assert len(set(files)) == 1


def test_the_map_is_brightest_over_its_patch_and_smooth_between(tmp_path):
    rollout = np.zeros((3, 5))
    rollout[2, 1] = 1
    pink = np.full((30, 50, 3), [0.8, 0.2, 0.4])
    picture = imread(plot_rollout(pink, rollout, tmp_path / "x.png"))[..., :3]
    is_pink = np.isclose(picture, pink[0, 0], atol=0.01).all(axis=-1)
    rows, columns = (np.flatnonzero(is_pink.any(axis=axis)) for axis in (1, 0))
    assert np.ptp(columns) == pytest.approx(480, abs=3)  # 3.2 inches
    assert np.ptp(rows) == pytest.approx(288, abs=3)
    left = columns[-1] + 1 + 18  # the gap has 0.12 inches
    over = picture[rows[0] : rows[-1] + 1, left : left + 480]
    brightness = over @ [0.3, 0.6, 0.1]
    row, column = np.argwhere(brightness > brightness.max() - 0.02).mean(axis=0)
    assert column == pytest.approx(1.5 * 96, abs=5) and 2.4 * 96 < row < 3 * 96
    along = brightness[240, int(1.5 * 96) : int(2.5 * 96)]  # to the middle of the next patch
    assert (np.diff(along) < 0.01).all() and np.abs(np.diff(along)).max() < 0.03
    assert brightness[:96, -96:].std() < 0.01  # far away nothing is seen


def boxes(figure, artists):
    """(artists, 4): where they are drawn: left, bottom, right and top, in pixels."""
    renderer = FigureCanvasAgg(figure).get_renderer()
    return np.array([artist.get_window_extent(renderer).extents for artist in artists])


def corners(image):
    left, right, bottom, top = image.get_extent()
    return left, top, right, bottom


def overlap(one, other):
    return min(one[2], other[2]) > max(one[0], other[0]) and min(one[3], other[3]) > max(
        one[1], other[1]
    )


@pytest.mark.parametrize("num_heads, rows", [(1, 1), (3, 1), (12, 3)])
def test_heads_share_colours_and_stand_beside_the_picture(num_heads, rows, saved, tmp_path):
    maps = noise(num_heads, 3, 5)
    plot_image_heads(noise(12, 20, 3), maps, tmp_path / "x.png")
    axes, bar = saved[0].axes
    picture, *panels = axes.images
    assert picture.get_array().shape == (12, 20, 3) and bar.get_ylabel() == "weight"
    for panel, values in zip(panels, maps, strict=True):
        np.testing.assert_array_equal(panel.get_array(), values)
        assert panel.get_clim() == (0, maps.max())
    places = list(map(corners, axes.images))
    assert not any(overlap(one, other) for one, other in itertools.combinations(places, 2))
    assert len({round(top, 6) for _, top, _, _ in places[1:]}) == rows
    for left, top, right, bottom in places:
        assert (right - left) / (bottom - top) == pytest.approx(20 / 12)
    assert [text.get_text() for text in axes.texts] == [f"head {i}" for i in range(num_heads)]
    for text, (left, top, right, _) in zip(axes.texts, places[1:], strict=True):
        x, y = text.get_position()
        assert x == pytest.approx((left + right) / 2) and top - 0.1 < y < top


def test_heads_that_see_nothing_are_dark(saved, tmp_path):
    plot_image_heads(noise(4, 4, 3), np.zeros((2, 3, 5)), tmp_path / "x.png")
    assert saved[0].axes[0].images[1].get_clim() == (0, 1)


@pytest.mark.parametrize("depth, num_heads", [(1, 1), (12, 3), (24, 16)])
def test_distances_are_dots_over_depth_and_their_mean_a_line(depth, num_heads, saved, tmp_path):
    distances = 50 * noise(depth, num_heads)
    plot_distances(distances, tmp_path / "x.png")
    axes = saved[0].axes[0]
    *dots, line = axes.lines
    np.testing.assert_array_equal([dot.get_ydata() for dot in dots], distances.T)
    assert {dot.get_linestyle() for dot in dots} == {"None"} and line.get_linestyle() == "-"
    for drawn in axes.lines:
        np.testing.assert_array_equal(drawn.get_xdata(), range(depth))
    np.testing.assert_allclose(line.get_ydata(), distances.sum(axis=1) / num_heads)
    low, high = axes.get_ylim()
    assert low == 0 and distances.max() < high < 1.2 * distances.max()
    texts = [text.get_text() for text in axes.get_legend().texts]
    assert texts == ["a head", "mean of the heads"]


@pytest.mark.parametrize(
    "grid, rows, columns",
    [
        ((2, 3), [0, 1], [0, 1, 2]),
        ((5, 30), range(5), range(0, 30, 3)),
        ((15, 1), range(0, 15, 2), [0]),
    ],
)
def test_each_position_or_each_kth_has_a_map_of_its_row(grid, rows, columns, saved, tmp_path):
    count = grid[0] * grid[1]
    similarity = noise(count, count) - 0.5
    path = plot_similarities(similarity, grid, tmp_path / "x.png")
    axes, bar = saved[0].axes
    assert bar.get_ylabel() == "cosine similarity"
    places = []
    for image, (row, column) in zip(axes.images, itertools.product(rows, columns), strict=True):
        expected = similarity[row * grid[1] + column].reshape(grid)
        np.testing.assert_array_equal(image.get_array(), expected)
        assert image.get_clim() == axes.images[0].get_clim()
        places.append(corners(image))
    assert not any(overlap(one, other) for one, other in itertools.combinations(places, 2))
    assert [text.get_text() for text in axes.get_xticklabels()] == list(map(str, columns))
    assert [text.get_text() for text in axes.get_yticklabels()] == list(map(str, rows))
    middles = [(left + right) / 2 for left, _, right, _ in places[: len(columns)]]
    np.testing.assert_allclose(axes.get_xticks(), middles)
    assert max(imread(path).shape) / 150 < 12  # inches


@pytest.mark.parametrize("channels", [1, 3])
def test_filters_stand_in_order(channels, saved, tmp_path):
    filters = noise(7, 4, 4, channels)
    plot_filters(filters, tmp_path / "x.png")
    images = saved[0].axes[0].images
    for image, values in zip(images, filters, strict=True):
        np.testing.assert_array_equal(image.get_array(), values.repeat(3 // channels, axis=2))
    places = [(round(top, 6), round(left, 6)) for left, top, _, _ in map(corners, images)]
    assert places == sorted(places) and len(set(places)) == 7


def cells(axes):
    """The numbers in the cells of a confusion matrix, {(row, column): number}."""
    return {text.get_position()[::-1]: int(text.get_text()) for text in axes.texts}


def test_right_is_blue_wrong_is_red_and_the_colour_is_the_share_of_the_row(saved, tmp_path):
    plot_confusion(COUNTS, NAMES[:3], tmp_path / "x.png")
    axes = saved[0].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    assert cells(axes) == {(0, 0): 9, (0, 1): 1, (1, 0): 2, (1, 1): 8, (2, 1): 3}
    image = axes.images[0]
    expected = [[0.9, -0.1, 0], [-0.2, 0.8, 0], [0, -1, 0]]
    np.testing.assert_allclose(image.get_array(), expected)
    red, _, blue, _ = np.moveaxis(image.cmap(image.norm(image.get_array())), -1, 0)
    np.testing.assert_array_equal(np.sign((blue - red).round(2)), np.sign(expected))
    scale = image.norm(np.array([-1, -0.25, 0, 0.04, 1]))
    np.testing.assert_allclose(scale, [0, 0.25, 0.5, 0.6, 1])  # by the square root
    assert [text.get_text() for text in saved[0].axes[1].get_yticklabels()] == [
        "1", "0.5", "0.1", "0", "0.1", "0.5", "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "num_classes, most, has_numbers",
    [(2, 9, True), (2, 1_000_000, True), (10, 99_999, True), (30, 99, True), (60, 99_999, False)],
)
def test_numbers_are_written_while_they_fit(num_classes, most, has_numbers, saved, tmp_path):
    counts = np.eye(num_classes, dtype=int) * most
    counts[0] = most
    path = plot_confusion(counts, range(num_classes), tmp_path / "x.png")
    assert max(imread(path).shape) / 150 < 18  # inches
    axes = saved[0].axes[0]
    assert len(axes.texts) == has_numbers * (2 * num_classes - 1)
    left, _, right, _ = boxes(saved[0], [axes])[0]
    for box in boxes(saved[0], axes.texts):
        assert (box[2:] - box[:2] < (right - left) / num_classes).all()


@pytest.mark.parametrize("num_classes", [2, 100])
def test_up_to_a_hundred_classes_all_have_a_label_and_none_overlaps(num_classes, saved, tmp_path):
    names = [f"{i} 고양이 {'long ' * 9}" for i in range(num_classes)]
    plot_confusion(np.eye(num_classes, dtype=int), names, tmp_path / "x.png")
    axes = saved[0].axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        texts = [text.get_text() for text in axis.get_ticklabels()]
        assert [text.split()[0] for text in texts] == list(map(str, range(num_classes)))
        assert all("고양이" in text and text.endswith("…") for text in texts)
    labels = boxes(saved[0], axes.get_yticklabels())
    assert (labels[1:, 3] < labels[:-1, 1]).all()  # each ends below the one before
    places = [axes.transData.transform((x, 0))[0] for x in axes.get_xticks()]
    across = np.diff(places) * math.sin(math.pi / 4)  # between the slanted lines of text
    assert (across > 1.15 * axes.get_xticklabels()[0].get_fontsize() * saved[0].dpi / 72).all()


def test_each_text_stands_under_its_picture_and_wrong_ones_are_red(saved, tmp_path):
    images = [noise(9, 9, 3), noise(5, 20, 1), noise(20, 5, 3), noise(9, 8, 3), noise(6, 6, 3)]
    texts = ["cat 98 %\ndog 1 %", "고양이", "$x$", "", "a long text which must be cut somewhere"]
    wrong = [False, True, False, False, True]
    plot_predictions(images, texts, tmp_path / "x.png", "t", wrong)
    axes = saved[0].axes[0]
    places = list(map(corners, axes.images))
    for image, place in zip(images, places, strict=True):
        ratio = (place[2] - place[0]) / (place[3] - place[1])
        assert ratio == pytest.approx(image.shape[1] / image.shape[0])
    written = [text.get_text() for text in axes.texts]
    assert written[:4] == ["cat 98 %", "dog 1 %", "고양이", "$x$"] and len(written) == 5
    assert written[4].startswith("a long text") and written[4].endswith("…")
    under = [0, 0, 1, 2, 4]
    for text, index in zip(axes.texts, under, strict=True):
        left, _, right, bottom = places[index]
        x, y = text.get_position()
        assert x == pytest.approx((left + right) / 2) and bottom < y < bottom + 0.4
        assert (text.get_color() == "#c44e52") == wrong[index]
        assert not text.get_parse_math()
    frames = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    for frame, index in zip(frames, [1, 4], strict=True):
        assert frame.get_xy() == pytest.approx(places[index][:2])
        assert frame.get_edgecolor() == matplotlib.colors.to_rgba("#c44e52")


@pytest.mark.parametrize("count", [1, 90])
def test_a_sheet_is_never_too_large_and_its_texts_do_not_overlap(count, saved, tmp_path):
    texts = [f"Golden Retriever {i} %\n우리 집 고양이와 개 {i} %" for i in range(count)]
    path = plot_predictions(noise(count, 4, 4, 3), texts, tmp_path / "x.png", "title")
    assert max(imread(path).shape) / 150 < 18  # inches
    texts = [text for text in saved[0].findobj(Text) if text.get_text()]
    edges = boxes(saved[0], texts + list(saved[0].axes[0].images))
    assert len(edges) == 3 * count + 1
    low = np.maximum(edges[:, None, :2], edges[:, :2])
    high = np.minimum(edges[:, None, 2:], edges[:, 2:])
    assert ((high > low + 1).all(axis=-1).sum(axis=1) == 1).all()  # each only with itself


IMAGE, EVEN = noise(4, 4, 3), np.ones((2, 2))


@pytest.mark.parametrize(
    "draw, message",
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
            r"similarity must be 6 x 6 for grid=\(2, 3\); got shape \(4, 4\)",
        ),
        (lambda p: plot_similarities(np.ones((4, 4)), (-2, -2), p), "rows must be a whole number"),
        (lambda p: plot_filters([], p), "filters must hold a picture or more; got none"),
        (lambda p: plot_filters(np.ones((2, 4, 4, 5)), p), r"got shape \(4, 4, 5\)"),
        (lambda p: plot_confusion(np.ones((2, 3)), "ab", p), r"as columns; got shape \(2, 3\)"),
        (lambda p: plot_confusion([[0.5]], "a", p), "counts must be whole numbers; got 0.5 in"),
        (lambda p: plot_confusion([[-1]], "a", p), "counts must be .* not below 0; got -1"),
        (lambda p: plot_confusion(COUNTS, "ab", p), "class_names must be 3 labels; got 2"),
        (lambda p: plot_predictions([], [], p), "images must hold a picture or more; got none"),
        (lambda p: plot_predictions([IMAGE], [], p), "texts must be 1 labels; got 0"),
        (lambda p: plot_predictions([IMAGE[0]], ["a"], p), "images must have shape"),
        (lambda p: plot_predictions([IMAGE], ["a"], p, "", []), r"wrong must be 1 booleans; got"),
        (lambda p: plot_predictions([IMAGE], ["a"], p, "", [1]), "booleans; got .* of int64"),
    ],
)
def test_what_cannot_be_drawn_is_told(draw, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        draw(tmp_path / "new" / "x.png")
    assert not list(tmp_path.iterdir())
