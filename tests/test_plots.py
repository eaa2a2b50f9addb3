"""The pictures are read back: as artists, from the figure that was saved, or as pixels."""

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.text import Text

from tfx_transformer.plots import (
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
EUROPEAN = ["▁Straße", "▁läuft", "▁cœur", "▁élève", "$x$"]


@pytest.fixture
def saved(monkeypatch):
    """The figures in the order in which they were saved."""
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: figures.append(f) or save(f, *a, **k))
    return figures


def attention(*shape):
    weights = np.exp(2 * np.random.default_rng(0).normal(size=shape))
    return weights / weights.sum(axis=-1, keepdims=True)


def waves(length=50, dim=16):
    """Sines, then cosines, from fast to slow."""
    angles = np.arange(length)[:, None] / 1000 ** (np.arange(dim // 2) / (dim // 2))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


PICTURES = {  # one of each, with letters of all languages
    "attention": lambda path: plot_attention(
        attention(3, 7), path, KOREAN, JAPANESE, "빨간 国際 é"
    ),
    "heads": lambda path: plot_heads(attention(3, 7, 5), path, JAPANESE, EUROPEAN, "사과 学校"),
    "word": lambda path: plot_word(attention(2, 7), path, JAPANESE, 3, "通って → 학교"),
    "positions": lambda path: plot_positions(waves(), path, "위치 位置"),
    "mask": lambda path: plot_mask(attention(5, 3) > 0.2, path, EUROPEAN, KOREAN, "마스크"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_ending_writes_its_format(name, tmp_path):
    draw = PICTURES[name]
    assert draw(tmp_path / "new" / "x.png") == tmp_path / "new" / "x.png"
    assert imread(tmp_path / "new" / "x.png")[..., :3].std() > 0.05
    assert draw(str(tmp_path / "x.pdf")).read_bytes().startswith(b"%PDF-")
    svg = ElementTree.parse(draw(tmp_path / "x.svg")).getroot()
    tags = {element.tag.removeprefix("{http://www.w3.org/2000/svg}") for element in svg.iter()}
    assert "path" in tags and "text" not in tags  # letters are outlines: they show everywhere
    with pytest.raises(ValueError, match="path must end in .png, .svg, .pdf; got path='x.gif'"):
        draw("x.gif")


def test_threads_draw_the_same_pictures_and_change_no_setting(tmp_path):
    settings = {key: matplotlib.rcParams[key] for key in matplotlib.rcParams}
    names = ["attention", "word", "mask"]
    alone = [PICTURES[name](tmp_path / f"{name}.png").read_bytes() for name in names]
    with ThreadPoolExecutor(len(names)) as pool:
        together = pool.map(lambda name: PICTURES[name](tmp_path / f"{name}_2.png"), names)
        assert [path.read_bytes() for path in together] == alone
    assert {key: matplotlib.rcParams[key] for key in matplotlib.rcParams} == settings


def test_the_brightest_cell_is_where_a_query_looks(tmp_path):
    weights = np.full((3, 4), 0.01)
    weights[2, 1] = 0.5
    picture = imread(plot_attention(weights, tmp_path / "x.png", "xyz", "abcd", "t"))[..., :3]
    bright = np.isclose(picture, matplotlib.colormaps["viridis"](1.0)[:3], atol=0.02).all(axis=-1)
    dark = np.isclose(picture, matplotlib.colormaps["viridis"](0.02)[:3], atol=0.02).all(axis=-1)
    rows = np.flatnonzero((bright | dark).sum(axis=1) > 200)  # pixels; a cell has 60 each way
    columns = np.flatnonzero((bright | dark).sum(axis=0) > 150)
    assert np.ptp(rows) == pytest.approx(180, abs=3) and np.ptp(columns) == pytest.approx(
        240, abs=3
    )
    cell = bright[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    np.testing.assert_allclose(np.argwhere(cell).mean(axis=0), [2.5 * 60, 1.5 * 60], atol=2)


def labels(axis):
    """The texts that are seen, in the order of their places."""
    low, high = sorted(axis.get_view_interval())
    pairs = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [text.get_text() for place, text in pairs if low <= place <= high]


def test_rows_are_queries_and_wide_keys_are_slanted(saved, tmp_path):
    plot_attention(attention(3, 7), tmp_path / "x.png", KOREAN, JAPANESE, "$\\alpha$ is no formula")
    plot_attention(attention(7, 3), tmp_path / "x.png", JAPANESE, ["a", "b", "사"])
    for figure, queries, keys, angle in zip(
        saved, (KOREAN, JAPANESE), (JAPANESE, ["a", "b", "사"]), (45, 0), strict=True
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
        texts = [text for text in texts if text.get_visible()]  # ticks have a second one, unseen
        assert len(texts) == 3 and not any(text.get_parse_math() for text in texts)


@pytest.mark.parametrize("length", [1, 100, 300])
def test_a_picture_is_never_too_large_and_its_labels_do_not_overlap(length, saved, tmp_path):
    tokens = [f"{i}_Donaudampfschifffahrtsgesellschaft" for i in range(length)]
    path = plot_attention(attention(length, length), tmp_path / "x.png", tokens, tokens)
    assert max(imread(path).shape) / 150 < 20  # inches
    axes = saved[0].axes[0]
    boxes = [text.get_window_extent() for text in axes.get_yticklabels()]
    assert len(boxes) > length / 4
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))
    places = [axes.transData.transform((x, 0))[0] for x in axes.get_xticks()]
    across = np.diff(places) * math.sin(math.pi / 4)  # between the slanted lines of text
    size = axes.get_xticklabels()[0].get_fontsize() * saved[0].dpi / 72  # pixels
    assert size >= 5 * saved[0].dpi / 72 and (across > 1.15 * size).all()


def test_cells_without_labels_are_counted(saved, tmp_path):
    plot_mask(np.ones((2, 3), bool), tmp_path / "x.png")
    assert labels(saved[0].axes[0].xaxis) == ["0", "1", "2"]
    assert labels(saved[0].axes[0].yaxis) == ["0", "1"]


@pytest.mark.parametrize(
    "num_heads, grid, left, bottom",
    [(1, (1, 1), {0}, {0}), (5, (2, 3), {0, 3}, {2, 3, 4}), (8, (2, 4), {0, 4}, {4, 5, 6, 7})],
)
def test_heads_share_colours_and_outer_labels(num_heads, grid, left, bottom, saved, tmp_path):
    weights = attention(num_heads, 7, 3)
    plot_heads(weights, tmp_path / "x.png", JAPANESE, KOREAN)
    *panels, bar = saved[0].axes
    assert len(panels) == num_heads and bar.get_ylabel() == "weight"
    for panel, values in zip(panels, weights, strict=True):
        np.testing.assert_allclose(panel.images[0].get_array(), values)
        assert panel.images[0].get_clim() == (0, weights.max())
    corners = np.array([panel.get_position().p0 for panel in panels]).round(6)
    assert (len(set(corners[:, 1])), len(set(corners[:, 0]))) == grid
    assert {i for i, panel in enumerate(panels) if panel.yaxis.get_visible()} == left
    assert {i for i, panel in enumerate(panels) if panel.xaxis.get_visible()} == bottom
    boxes = [panel.get_tightbbox() for panel in panels]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


@pytest.mark.parametrize("num_heads", [2, 13])
def test_the_lines_of_a_word_end_where_its_heads_look(num_heads, saved, tmp_path):
    weights, word = attention(num_heads, 7), 3
    plot_word(weights, tmp_path / "x.png", JAPANESE, word)
    axes = saved[0].axes[0]
    lines = axes.collections[0]
    colours = [bars[0].get_facecolor()[:3] for bars in axes.containers]
    assert len(set(colours)) == num_heads
    seen = np.full_like(weights, np.nan)
    for (start, end), colour in zip(lines.get_segments(), lines.get_colors(), strict=True):
        assert round(start[1]) == word and start[0] < end[0]
        seen[colours.index(tuple(colour[:3])), round(end[1])] = colour[3]
    np.testing.assert_allclose(seen, weights / weights.max())
    assert (np.diff(lines.get_linewidths()) >= 0).all()  # the strongest is thickest, and on top
    boxes = [[bar.get_facecolor()[3] for bar in bars] for bars in axes.containers]
    np.testing.assert_allclose(boxes, weights / weights.max())
    texts = [text for text in axes.texts if text.get_text() in JAPANESE]
    assert sorted(text.get_text() for text in texts) == sorted(2 * JAPANESE)
    assert [text.get_text() for text in texts if text.get_bbox_patch()] == [JAPANESE[word]]


def test_the_waves_run_from_fast_to_slow_however_they_are_stored(saved, tmp_path):
    halves = waves()
    in_turn = halves.reshape(50, 2, 8).swapaxes(1, 2).reshape(50, 16)
    for encoding in (halves, in_turn, halves[:, :3], np.zeros((1, 2))):
        plot_positions(encoding, tmp_path / "x.png")
        axes = saved[-1].axes
        np.testing.assert_allclose(axes[0].images[0].get_array(), encoding)
        for line, text in zip(axes[2].lines, axes[2].get_legend().texts, strict=True):
            dimension = int(text.get_text().removeprefix("dimension "))
            np.testing.assert_allclose(line.get_ydata(), encoding[:, dimension])
    one, other, few, still = ([line.get_ydata() for line in f.axes[2].lines] for f in saved)
    np.testing.assert_allclose(one, other)
    assert [len(lines) for lines in (one, few, still)] == [6, 3, 1]
    turns = [np.sum(np.diff(np.sign(np.diff(line))) != 0) for line in one]
    assert turns == sorted(turns, reverse=True) and turns[0] > 10 > 2 > turns[-1]


def test_a_mask_has_two_colours_and_says_which_is_which(saved, tmp_path):
    mask = np.tril(np.ones((3, 5), bool), 1)
    plot_mask(mask, tmp_path / "x.png", KOREAN, EUROPEAN)
    axes = saved[0].axes[0]
    patches, texts = axes.get_legend().get_patches(), axes.get_legend().texts
    assert [text.get_text() for text in texts] == ["may attend", "may not"]
    may, may_not = (patch.get_facecolor() for patch in patches)
    image = axes.images[0]
    shown = image.cmap(image.norm(image.get_array()))
    np.testing.assert_allclose(shown, np.where(mask[..., None], may, may_not))
    assert np.abs(np.subtract(may, may_not)).max() > 0.5


def test_the_terminal_shows_the_same():
    lines = show_attention(WEIGHTS, ["x", "y"], ["a", "b", "c"]).splitlines()
    assert lines[0].split() == ["a", "b", "c"]
    assert lines[1] == " x ██    "
    assert lines[2] == " y   ██  "


def test_the_terminal_lines_up_for_wide_letters_and_long_words():
    weights = [[0.1, 0.9, 0.0], [0.5, 0.3, 0.7]]
    assert show_attention(weights, ["사과나", "</s>"], ["▁red", "リンゴ", "a"]).splitlines() == [
        "        ▁red リンゴ a",
        "사과나      ███████  ",
        "  </s> ▒▒▒▒▒░░░░░░░▓▓",
    ]


@pytest.mark.parametrize(
    "draw, message",
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
def test_what_cannot_be_drawn_is_told(draw, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        draw(tmp_path / "new" / "x.png")
    assert not list(tmp_path.iterdir())
