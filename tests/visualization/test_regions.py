"""`plot_regions`, checked by the artists of the saved figure, or by pixels."""

import math

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread

from tfx_transformer.visualization.images import plot_regions

IMAGE = np.random.default_rng(0).random((21, 35, 3))
PIECES = ["▁a", "▁red", "▁", "고양이", "犬", "$x$", "▁" + "long" * 9, "</s>"]
WEIGHTS = np.random.default_rng(1).random((8, 3, 5))


def test_each_word_has_the_image_under_its_attention_weights(saved, tmp_path):
    path = plot_regions(IMAGE, WEIGHTS, PIECES, tmp_path / "new" / "x.png", "사진 写真 $é$")
    assert path == tmp_path / "new" / "x.png" and imread(path).std() > 0.05
    first, *panels, bar = saved[0].axes
    assert bar.get_ylabel() == "attention weight"
    np.testing.assert_array_equal(first.images[0].get_array(), IMAGE)
    for axes, weights in zip(panels, WEIGHTS, strict=True):
        gray, heat_map = axes.images
        np.testing.assert_allclose(gray.get_array(), IMAGE @ [0.299, 0.587, 0.114])
        np.testing.assert_array_equal(heat_map.get_array(), weights)
        assert heat_map.get_clim() == (0, WEIGHTS.max()) and 0 < heat_map.get_alpha() < 1
        assert heat_map.get_extent() == gray.get_extent() and gray.get_clim() == (0, 1)
    assert saved[0].get_suptitle() == "사진 写真 $é$"


@pytest.mark.parametrize("shape", [(21, 35, 3), (40, 12, 1), (9, 9, 3)])
def test_words_are_below_their_images_in_rows_of_six(shape, saved, boxes, tmp_path):
    plot_regions(np.ones(shape), WEIGHTS, PIECES, tmp_path / "x.png")
    edges = boxes(panels := saved[0].axes[:-1])  # without the color bar
    tops = edges[:, 3].round(1).tolist()
    assert tops == sorted(tops)[::-1] and [tops.count(top) for top in sorted(set(tops))] == [3, 6]
    width, height = edges[:, 2] - edges[:, 0], edges[:, 3] - edges[:, 1]
    np.testing.assert_allclose(width / height, shape[1] / shape[0], rtol=1e-3)
    labels = [axes.xaxis.label for axes in panels[1:]]
    words = [label.get_text() for label in labels]
    assert words[:6] == ["a", "red", "(space)", "고양이", "犬", "$x$"] and words[7] == "(end)"
    assert words[6].startswith("longlong") and words[6].endswith("…")
    assert not any(label.get_parse_math() for label in labels)
    left, bottom, right, top = boxes(labels).T
    np.testing.assert_allclose((left + right) / 2, edges[1:, [0, 2]].mean(axis=1), atol=1)
    assert (top < edges[1:, 1]).all() and (edges[1:, 1] - bottom < 40).all()
    same_row = np.abs(bottom[:-1] - bottom[1:]) < 40
    assert (left[1:] > right[:-1])[same_row].all()  # no word runs into the next


def test_the_region_with_the_largest_weight_is_the_brightest(saved, tmp_path):
    weights = np.zeros((1, 3, 5))
    weights[0, 2, 1] = 1
    plot_regions(np.full((30, 50, 3), 0.2), weights, ["x"], tmp_path / "x.png")
    canvas = FigureCanvasAgg(saved[0])
    canvas.draw()
    left, bottom, right, top = saved[0].axes[1].get_window_extent().extents.round().astype(int)
    brightness = np.asarray(canvas.buffer_rgba())[::-1, :, 0]
    panel = brightness[bottom + 2 : top - 2, left + 2 : right - 2][::-1].astype(int)
    region = (top - bottom) / 3
    row, column = np.argwhere(panel == panel.max()).mean(axis=0)
    assert column == pytest.approx(1.5 * region, abs=12) and row > 1.8 * region


def test_words_without_attention_are_dark(saved, tmp_path):
    plot_regions(IMAGE, np.zeros((2, 3, 5)), ["a", "b"], tmp_path / "x.png")
    assert [axes.images[1].get_clim() for axes in saved[0].axes[1:3]] == [(0, 1)] * 2


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
def test_bad_arguments_are_refused(image, weights, pieces, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plot_regions(image, weights, pieces, tmp_path / "new" / "x.png")
    with pytest.raises(ValueError, match="path must end in .png, .svg, .pdf; got path='x.gif'"):
        plot_regions(IMAGE, WEIGHTS, PIECES, "x.gif")
    assert not list(tmp_path.iterdir())
