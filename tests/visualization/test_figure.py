import math
import re

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from tfx_transformer.visualization.figure import (
    check_array,
    check_images,
    grid_shape,
    make_panels,
    plot_image,
    save_figure,
)


def test_the_fonts_are_set_text_by_text_and_no_setting_changes(tmp_path):
    settings = {key: matplotlib.rcParams[key] for key in matplotlib.rcParams}
    figure = Figure()
    axes = figure.subplots()
    axes.set_xticks([0, 1], ["사과", "リンゴ"])
    axes.set_title("빨간 赤い")
    assert save_figure(figure, tmp_path / "new" / "x.PNG").read_bytes()[:4] == b"\x89PNG"
    for text in (axes.title, *axes.get_xticklabels(), *axes.get_yticklabels()):
        assert text.get_fontfamily() == ["DejaVu Sans", "IPAexGothic", "NanumGothic"]
    assert {key: matplotlib.rcParams[key] for key in matplotlib.rcParams} == settings


def test_a_long_title_is_broken_into_lines(boxes, tmp_path):
    figure, _ = make_panels(1, 4, 2)
    save_figure(figure, tmp_path / "x.png", "사과 " * 20 + "\n" + "word " * 20)
    lines = figure.get_suptitle().splitlines()
    assert "".join(lines).replace(" ", "") == "사과" * 20 + "word" * 20
    assert all(line.count(" ") > 1 for line in lines)
    left, _, right, _ = boxes([figure._suptitle])[0]
    assert right - left < 1.1 * figure.bbox.width


def test_pictures_of_few_pixels_are_smooth():
    _, (axes,) = make_panels(1, 4, 2)
    for side, interpolation in ((8, "bicubic"), (200, "auto")):
        assert plot_image(axes, np.ones((side, side, 3))).get_interpolation() == interpolation


def test_a_letter_without_a_font_gives_a_warning(tmp_path):
    figure = Figure()
    figure.text(0, 0, "们")  # simplified Chinese: the other tests would fail like this
    with pytest.warns(UserWarning, match="Glyph 20204"):
        save_figure(figure, tmp_path / "x.png")


@pytest.mark.parametrize("name", ["x.jpg", "x", "png"])
def test_an_unknown_ending_is_refused_and_nothing_is_written(name, tmp_path):
    with pytest.raises(ValueError, match=f"path must end in .png, .svg, .pdf; got path=.*{name}"):
        save_figure(Figure(), tmp_path / "new" / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "count, shape",
    [(1, (1, 1)), (3, (1, 3)), (5, (2, 3)), (8, (2, 4)), (12, (3, 4)), (90, (9, 10))],
)
def test_panels_form_a_grid_with_few_empty_cells(count, shape):
    assert grid_shape(count) == shape
    figure, panels = make_panels(count, 1, 2)
    assert figure.axes == panels and len(panels) == count
    assert tuple(figure.get_size_inches()) == (shape[1], 2 * shape[0])


@pytest.mark.parametrize(
    "axes, value, message",
    [
        ("TS", np.ones(3), r"x must have axes (T, S), none empty; got shape (3,)"),
        ("TS", np.ones((0, 3)), r"none empty; got shape (0, 3)"),
        ("HNN", np.ones((2, 3, 4)), r"x must have axes (H, N, N), none empty; got shape (2, 3, 4)"),
        ("T", [1, math.nan], "x must be finite and not below 0; got nan in x"),
        ("T", [1, -1], "x must be finite and not below 0; got -1.0 in x"),
    ],
)
def test_arrays_have_the_named_axes_and_finite_values(axes, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_array(axes, 0, x=value)


def test_images_are_floats_with_three_channels():
    gray = np.array([[[0], [255]]], "uint8")
    for image in check_images(images=[gray, gray / 255, gray.repeat(3, axis=2)]):
        np.testing.assert_array_equal(image, [[[0, 0, 0], [1, 1, 1]]])
