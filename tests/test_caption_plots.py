"""The pictures are read back: as artists, from the figure that was saved, or as pixels."""

import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import imread

from tfx_transformer.caption_plots import plot_regions

IMAGE = np.random.default_rng(0).random((21, 35, 3))
PIECES = ["▁a", "▁red", "▁", "고양이", "犬", "$x$", "▁" + "long" * 9, "</s>"]
WEIGHTS = np.random.default_rng(1).random((8, 3, 5))


@pytest.fixture
def saved(monkeypatch):
    """The figures in the order in which they were saved."""
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda f, *a, **k: figures.append(f) or save(f, *a, **k))
    return figures


def corners(image):
    left, right, bottom, top = image.get_extent()
    return left, top, right, bottom


def test_each_word_has_the_picture_under_the_regions_it_was_said_of(saved, tmp_path):
    path = plot_regions(IMAGE, WEIGHTS, PIECES, tmp_path / "new" / "x.png", "사진 写真 $é$")
    assert path == tmp_path / "new" / "x.png" and imread(path).std() > 0.05
    (axes,) = saved[0].axes
    picture, *rest = axes.images
    np.testing.assert_array_equal(picture.get_array(), IMAGE)
    greys, maps = rest[::2], rest[1::2]
    for grey, drawn, weights in zip(greys, maps, WEIGHTS, strict=True):
        np.testing.assert_allclose(grey.get_array(), IMAGE @ [0.299, 0.587, 0.114])
        np.testing.assert_array_equal(drawn.get_array(), weights)
        assert drawn.get_clim() == (0, weights.max()) and 0 < drawn.get_alpha() < 1
        assert corners(drawn) == corners(grey) and grey.get_clim() == (0, 1)
    assert [text.get_text() for text in saved[0].texts] == ["사진 写真 $é$"]


@pytest.mark.parametrize("shape", [(21, 35, 3), (40, 12, 1), (9, 9, 3)])
def test_words_stand_in_rows_below_their_pictures(shape, saved, tmp_path):
    plot_regions(np.ones(shape), WEIGHTS, PIECES, tmp_path / "x.png")
    (axes,) = saved[0].axes
    places = [corners(image) for image in axes.images[:1] + axes.images[1::2]]
    tops = [round(top, 6) for _, top, _, _ in places]
    assert tops == sorted(tops) and [tops.count(top) for top in sorted(set(tops))] == [6, 3]
    for left, top, right, bottom in places:
        assert (right - left) / (bottom - top) == pytest.approx(shape[1] / shape[0])
    renderer = FigureCanvasAgg(saved[0]).get_renderer()
    boxes = np.array([text.get_window_extent(renderer).extents for text in axes.texts])
    for text, (left, _, right, bottom) in zip(axes.texts, places[1:], strict=True):
        x, y = text.get_position()
        assert x == pytest.approx((left + right) / 2) and bottom < y < bottom + 0.3
        assert not text.get_parse_math()
    said = [text.get_text() for text in axes.texts]
    assert said[:6] == ["a", "red", "▁", "고양이", "犬", "$x$"] and said[7] == "</s>"
    assert said[6].startswith("longlong") and said[6].endswith("…")
    same_row = np.abs(boxes[:-1, 1] - boxes[1:, 1]) < 40
    assert (boxes[1:, 0] > boxes[:-1, 2])[same_row].all()  # no word runs into the next


def test_the_brightest_part_is_the_region_that_was_read(tmp_path):
    weights = np.zeros((1, 3, 5))
    weights[0, 2, 1] = 1
    picture = imread(plot_regions(np.full((30, 50, 3), 0.2), weights, ["x"], tmp_path / "x.png"))
    brightness = picture[..., 0].copy()
    is_white = brightness > 0.99  # the page
    columns = np.flatnonzero(~is_white.all(axis=0))
    right = columns[-1] + 1
    over = brightness[: int(0.9 * 150), right - 225 : right]  # 1.5 inches wide, 0.9 high
    rows = np.flatnonzero((over < 0.99).any(axis=1))
    over = over[rows[0] :]
    row, column = np.argwhere(over == over[over < 0.99].max()).mean(axis=0)
    assert column == pytest.approx(1.5 * 45, abs=12) and row > 1.8 * 45


def test_words_that_saw_nothing_are_dark(saved, tmp_path):
    plot_regions(IMAGE, np.zeros((2, 3, 5)), ["a", "b"], tmp_path / "x.png")
    assert [image.get_clim() for image in saved[0].axes[0].images[2::2]] == [(0, 1)] * 2


def test_every_ending_writes_its_format(tmp_path):
    pdf, svg = (
        plot_regions(IMAGE, WEIGHTS[:1], ["x"], tmp_path / name) for name in ("x.pdf", "x.svg")
    )
    assert pdf.read_bytes().startswith(b"%PDF-") and b"<svg" in svg.read_bytes()


@pytest.mark.parametrize(
    "image, weights, pieces, message",
    [
        (IMAGE[0], WEIGHTS, PIECES, r"image must have shape \(h, w, 3\)"),
        (255 * IMAGE, WEIGHTS, PIECES, "image must be uint8 or floats in 0..1"),
        (IMAGE, WEIGHTS[0], PIECES, r"weights must have axes \(T, R, C\), none empty"),
        (IMAGE, WEIGHTS[:0], [], r"weights must have axes \(T, R, C\), none empty"),
        (IMAGE, -WEIGHTS, PIECES, "weights must be finite and not below 0"),
        (IMAGE, math.nan * WEIGHTS, PIECES, "weights must be finite and not below 0; got nan"),
        (IMAGE, WEIGHTS, PIECES[1:], "pieces must be 8 labels; got 7"),
    ],
)
def test_what_cannot_be_drawn_is_told(image, weights, pieces, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plot_regions(image, weights, pieces, tmp_path / "new" / "x.png")
    with pytest.raises(ValueError, match="path must end in .png, .svg, .pdf; got path='x.gif'"):
        plot_regions(IMAGE, WEIGHTS, PIECES, "x.gif")
    assert not list(tmp_path.iterdir())
