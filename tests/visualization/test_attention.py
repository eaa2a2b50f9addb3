"""The plots are checked by the artists of the saved figure, or by pixels."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.text import Text

from tfx_transformer.visualization.attention import (
    plot_attention,
    plot_heads,
    plot_mask,
    plot_positions,
    plot_word,
    show_attention,
)

WEIGHTS = np.array([[1.0, 0.0, 0.0], [0.1, 0.9, 0.0]])
KOREAN = ["▁빨간", "▁사과", "</s>"]
JAPANESE = ["▁国際", "学校", "に", "通って", "います", "。", "</s>"]
READABLE = {"ko": ["빨간", "사과", "(end)"], "ja": [JAPANESE[0][1:], *JAPANESE[1:-1], "(end)"]}
EUROPEAN = ["▁Straße", "▁läuft", "▁cœur", "▁élève", "$x$"]


def attention(*shape):
    weights = np.exp(2 * np.random.default_rng(0).normal(size=shape))
    return weights / weights.sum(axis=-1, keepdims=True)


def waves(length=50, dim=16):
    """Sines, then cosines, from fast to slow."""
    angles = np.arange(length)[:, None] / 1000 ** (np.arange(dim // 2) / (dim // 2))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


PLOTS = {  # one of each, with letters of all languages
    "attention": lambda path: plot_attention(
        attention(3, 7), path, KOREAN, JAPANESE, "빨간 国際 é"
    ),
    "heads": lambda path: plot_heads(attention(3, 7, 5), path, JAPANESE, EUROPEAN, "사과 学校"),
    "word": lambda path: plot_word(attention(2, 7), path, JAPANESE, 3, "通って → 학교"),
    "positions": lambda path: plot_positions(waves(), path, "위치 位置"),
    "mask": lambda path: plot_mask(attention(5, 3) > 0.2, path, EUROPEAN, KOREAN, "마스크"),
}


@pytest.mark.parametrize("name", PLOTS)
def test_every_ending_writes_its_format(name, tmp_path):
    plot = PLOTS[name]
    assert plot(tmp_path / "new" / "x.png") == tmp_path / "new" / "x.png"
    assert imread(tmp_path / "new" / "x.png")[..., :3].std() > 0.05
    assert plot(str(tmp_path / "x.pdf")).read_bytes().startswith(b"%PDF-")
    svg = ElementTree.parse(plot(tmp_path / "x.svg")).getroot()
    tags = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in svg.iter()}
    assert "path" in tags and "text" not in tags  # letters are outlines, independent of fonts
    with pytest.raises(ValueError, match="path must end in .png, .svg, .pdf; got path='x.gif'"):
        plot("x.gif")


def test_threads_plot_the_same_and_change_no_setting(tmp_path):
    settings = {key: matplotlib.rcParams[key] for key in matplotlib.rcParams}
    names = ["attention", "word", "mask"]
    alone = [PLOTS[name](tmp_path / f"{name}.png").read_bytes() for name in names]
    with ThreadPoolExecutor(len(names)) as pool:
        together = pool.map(lambda name: PLOTS[name](tmp_path / f"{name}_2.png"), names)
        assert [path.read_bytes() for path in together] == alone
    assert {key: matplotlib.rcParams[key] for key in matplotlib.rcParams} == settings


def test_the_darkest_cell_has_the_largest_weight(tmp_path):
    weights = np.full((3, 4), 0.01)
    weights[2, 1] = 0.5
    pixels = imread(plot_attention(weights, tmp_path / "x.png", "xyz", "abcd", "t"))[..., :3]
    dark = np.isclose(pixels, matplotlib.colormaps["Blues"](1.0)[:3], atol=0.01).all(axis=-1)
    bright = np.isclose(pixels, matplotlib.colormaps["Blues"](0.02)[:3], atol=0.01).all(axis=-1)
    rows, columns = (
        np.flatnonzero(count > count.max() / 2)
        for count in ((bright | dark).sum(axis=i) for i in (1, 0))
    )
    cell = np.ptp(rows) / 3  # pixels; cells are squares
    assert cell > 45 and np.ptp(columns) / 4 == pytest.approx(cell, abs=1)
    cells = dark[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    np.testing.assert_allclose(np.argwhere(cells).mean(axis=0), [2.5 * cell, 1.5 * cell], atol=2)


def labels(axis):
    """The visible tick labels, in the order of their positions."""
    low, high = sorted(axis.get_view_interval())
    pairs = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [text.get_text() for position, text in pairs if low <= position <= high]


def test_rows_are_queries_and_wide_keys_are_rotated(saved, tmp_path):
    plot_attention(attention(3, 7), tmp_path / "x.png", KOREAN, JAPANESE, "$\\alpha$ is no formula")
    plot_attention(attention(7, 3), tmp_path / "x.png", JAPANESE, ["a", "b", "사"])
    for figure, queries, keys, angle in zip(
        saved,
        (READABLE["ko"], READABLE["ja"]),
        (READABLE["ja"], ["a", "b", "사"]),
        (45, 0),
        strict=True,
    ):
        axes = figure.axes[0]
        assert labels(axes.yaxis) == queries and labels(axes.xaxis) == keys
        assert {text.get_rotation() for text in axes.get_xticklabels()} == {angle}
        assert axes.images[0].get_array().shape == (len(queries), len(keys))


def test_a_dollar_is_a_dollar_and_no_formula(saved, tmp_path):
    label, path = "$x$", tmp_path / "x.png"
    plot_attention([[1.0]], path, [label], [label], label)
    plot_heads([[[1.0]]], path, [label], [label], label)
    plot_word([[1.0]], path, [label], 0, label)
    for figure in saved:
        texts = [text for text in figure.findobj(Text) if text.get_text() == label]
        texts = [text for text in texts if text.get_visible()]  # ticks have a second, hidden one
        assert len(texts) == 3 and not any(text.get_parse_math() for text in texts)


@pytest.mark.parametrize("length", [1, 100, 300])
def test_a_plot_has_a_maximum_size_and_its_labels_do_not_overlap(length, saved, tmp_path):
    tokens = [f"{i}_Donaudampfschifffahrtsgesellschaft" for i in range(length)]
    path = plot_attention(attention(length, length), tmp_path / "x.png", tokens, tokens)
    assert max(imread(path).shape) / 150 < 20  # inches
    axes = saved[0].axes[0]
    boxes = [text.get_window_extent() for text in axes.get_yticklabels()]
    assert len(boxes) > length / 4
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))
    positions = [axes.transData.transform((x, 0))[0] for x in axes.get_xticks()]
    across = np.diff(positions) * math.sin(math.pi / 4)  # between the rotated lines of text
    size = axes.get_xticklabels()[0].get_fontsize() * saved[0].dpi / 72  # pixels
    assert size >= 5 * saved[0].dpi / 72 and (across > 1.15 * size).all()


def test_rows_and_columns_without_labels_are_numbered(saved, tmp_path):
    plot_mask(np.ones((2, 3), bool), tmp_path / "x.png")
    assert labels(saved[0].axes[0].xaxis) == ["1", "2", "3"]
    assert labels(saved[0].axes[0].yaxis) == ["1", "2"]


def test_the_axes_are_named(saved, tmp_path):
    plot_attention(WEIGHTS, tmp_path / "x.png")
    plot_heads(WEIGHTS[None], tmp_path / "x.png", names=("translation", "source"))
    plot_mask(WEIGHTS > 0, tmp_path / "x.png")
    names = [(figure.axes[0].get_ylabel(), figure.axes[0].get_xlabel()) for figure in saved]
    assert names == [("from token", "to token"), ("translation", "source"), names[0]]


def test_nearly_equal_weights_have_nearly_one_color(saved, tmp_path):
    even = 0.1 + 0.001 * attention(2, 5, 5)
    plot_attention(even[0], tmp_path / "x.png")
    plot_heads(even, tmp_path / "x.png")
    for figure in saved:
        image = figure.axes[0].images[0]
        assert image.get_clim()[0] == 0
        assert np.ptp(image.cmap(image.norm(image.get_array())), axis=(0, 1)).max() < 0.03


@pytest.mark.parametrize(
    "num_heads, grid, left, bottom",
    [(1, (1, 1), {0}, {0}), (5, (2, 3), {0, 3}, {2, 3, 4}), (8, (2, 4), {0, 4}, {4, 5, 6, 7})],
)
def test_heads_share_colors_and_outer_labels(num_heads, grid, left, bottom, saved, tmp_path):
    weights = attention(num_heads, 7, 3)
    plot_heads(weights, tmp_path / "x.png", JAPANESE, KOREAN)
    *panels, bar = saved[0].axes
    assert len(panels) == num_heads and bar.get_ylabel() == "attention weight"
    assert [panel.get_title() for panel in panels] == [f"head {i + 1}" for i in range(num_heads)]
    for panel, values in zip(panels, weights, strict=True):
        np.testing.assert_allclose(panel.images[0].get_array(), values)
        assert panel.images[0].get_clim() == (0, weights.max())
    corners = np.array([panel.get_position().p0 for panel in panels]).round(3)
    assert (len(set(corners[:, 1])), len(set(corners[:, 0]))) == grid
    assert {i for i, panel in enumerate(panels) if panel.yaxis.get_visible()} == left
    assert {i for i, panel in enumerate(panels) if panel.xaxis.get_visible()} == bottom
    boxes = [panel.get_tightbbox() for panel in panels]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


@pytest.mark.parametrize("num_heads", [2, 13])
def test_the_lines_of_a_word_end_at_the_keys_of_each_head(num_heads, saved, tmp_path):
    weights, word = attention(num_heads, 7), 3
    plot_word(weights, tmp_path / "x.png", JAPANESE, word)
    left, right = saved[0].axes
    (lines,), (boxes,) = left.collections, right.collections
    boxes = boxes.get_array()  # (S, H, 4)
    colors = [tuple(color) for color in boxes[0, :, :3]]
    assert len(set(colors)) == num_heads
    plotted = np.full_like(weights, np.nan)
    for (start, end), color in zip(lines.get_segments(), lines.get_colors(), strict=True):
        assert round(start[1]) == word and start[0] < end[0]
        plotted[colors.index(tuple(color[:3])), round(end[1])] = color[3]
    np.testing.assert_allclose(plotted, weights / weights.max())
    assert (np.diff(lines.get_linewidths()) >= 0).all()  # the strongest is thickest, and on top
    np.testing.assert_allclose(boxes[:, :, 3].T, weights / weights.max())
    assert labels(left.yaxis) == labels(right.yaxis) == READABLE["ja"]
    marked = [text.get_text() for text in left.get_yticklabels() if text.get_bbox_patch()]
    assert marked == [READABLE["ja"][word]]
    heads = [text.get_text() for text in right.get_xticklabels()]
    assert heads == [str(head + 1) for head in range(num_heads)]
    assert right.get_xlabel() == f"darkest: {weights.max():.2f}"


def test_the_waves_are_ordered_from_fast_to_slow_in_both_memory_layouts(saved, tmp_path):
    halves = waves()
    in_turn = halves.reshape(50, 2, 8).swapaxes(1, 2).reshape(50, 16)
    for encoding in (halves, in_turn, halves[:, :3], np.zeros((1, 2))):
        plot_positions(encoding, tmp_path / "x.png")
        axes = saved[-1].axes
        np.testing.assert_allclose(axes[0].images[0].get_array(), encoding)
        for line, text in zip(axes[1].lines, saved[-1].legends[0].texts, strict=True):
            dimension = int(text.get_text().removeprefix("dimension "))
            np.testing.assert_allclose(line.get_ydata(), encoding[:, dimension])
    one, other, few, still = ([line.get_ydata() for line in f.axes[1].lines] for f in saved)
    np.testing.assert_allclose(one, other)
    assert [len(lines) for lines in (one, few, still)] == [6, 3, 1]
    turns = [np.sum(np.diff(np.sign(np.diff(line))) != 0) for line in one]
    assert turns == sorted(turns, reverse=True) and turns[0] > 10 > 2 > turns[-1]


def test_a_mask_has_two_colors_and_a_legend(saved, tmp_path):
    mask = np.tril(np.ones((3, 5), bool), 1)
    plot_mask(mask, tmp_path / "x.png", KOREAN, EUROPEAN)
    axes = saved[0].axes[0]
    (legend,) = saved[0].legends
    patches, texts = legend.get_patches(), legend.texts
    assert [text.get_text() for text in texts] == ["may attend", "may not"]
    may, may_not = (patch.get_facecolor() for patch in patches)
    image = axes.images[0]
    shown = image.cmap(image.norm(image.get_array()))
    np.testing.assert_allclose(shown, np.where(mask[..., None], may, may_not))
    assert np.abs(np.subtract(may, may_not)).max() > 0.5


def test_text_output_shows_the_same():
    lines = show_attention(WEIGHTS, ["x", "y"], ["a", "b", "c"]).splitlines()
    assert lines[0].split() == ["a", "b", "c"]
    assert lines[1] == " x ██    "
    assert lines[2] == " y   ██  "


def test_text_output_is_aligned_for_wide_letters_and_long_words():
    weights = [[0.1, 0.9, 0.0], [0.5, 0.3, 0.7]]
    assert show_attention(weights, ["사과나", "</s>"], ["▁red", "リンゴ", "a"]).splitlines() == [
        "        red リンゴ ·a",
        "사과나     ███████   ",
        " (end) ▒▒▒▒░░░░░░░▓▓▓",
    ]


@pytest.mark.parametrize(
    "plot, message",
    [
        (lambda p: plot_attention(np.ones(3), p), r"weights must have axes \(T, S\).*\(3,\)"),
        (lambda p: plot_attention(np.ones((0, 3)), p), r"none empty; got shape \(0, 3\)"),
        (lambda p: plot_attention([[0.5, -0.5]], p), "weights must be .* not below 0; got -0.5"),
        (lambda p: plot_attention([[0.5, math.nan]], p), "weights must be finite.*; got nan"),
        (lambda p: plot_attention(WEIGHTS, p, KOREAN), "queries must be 2 labels; got 3"),
        (lambda p: plot_attention(WEIGHTS, p, None, ["a"]), "keys must be 3 labels; got 1"),
        (lambda p: plot_heads(WEIGHTS, p), r"weights must have axes \(H, T, S\).*\(2, 3\)"),
        (lambda p: plot_word(WEIGHTS[0], p, KOREAN, 0), r"weights must have axes \(H, S\)"),
        (lambda p: plot_word(WEIGHTS, p, JAPANESE, 0), "tokens must be 3 labels; got 7"),
        (lambda p: plot_word(WEIGHTS, p, KOREAN, 3), "0 <= word < 3; got word=3"),
        (lambda p: plot_word(WEIGHTS, p, KOREAN, -1), "0 <= word < 3; got word=-1"),
        (lambda p: plot_word(WEIGHTS, p, KOREAN, True), "word must be a whole .*; got word=True"),
        (lambda p: plot_positions(np.ones(3), p), r"encoding must have axes \(T, D\)"),
        (lambda p: plot_positions([[math.inf]], p), "encoding must be finite.*; got inf"),
        (lambda p: plot_mask(WEIGHTS, p), "mask must be boolean.*; got mask of float64"),
        (lambda p: plot_mask(np.ones(3, bool), p), r"mask must have axes \(T, S\)"),
        (lambda p: show_attention(WEIGHTS, "abc", "abc"), "queries must be 2 labels; got 3"),
    ],
)
def test_bad_arguments_are_refused(plot, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plot(tmp_path / "new" / "x.png")
    assert not list(tmp_path.iterdir())
