"""The plot is checked by the artists of the saved figure."""

import math

import numpy as np
import pytest
from matplotlib.image import imread

from tfx_transformer.visualization.confusion import plot_confusion

NAMES = ["고양이", "犬と猫", "Straße"]
COUNTS = [[9, 1, 0], [2, 8, 0], [0, 3, 0]]


def cells(axes):
    """The numbers in the cells of a confusion matrix, {(row, column): number}."""
    return {text.get_position()[::-1]: int(text.get_text()) for text in axes.texts}


def test_correct_is_blue_wrong_is_red_by_the_fraction_of_the_row(saved, tmp_path):
    plot_confusion(COUNTS, NAMES[:3], tmp_path / "x.png")
    axes = saved[0].axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    assert cells(axes) == {(0, 0): 9, (0, 1): 1, (1, 0): 2, (1, 1): 8, (2, 1): 3}
    image = axes.images[0]
    expected = [[0.9, -0.1, 0], [-0.2, 0.8, 0], [0, -1, 0]]
    np.testing.assert_allclose(image.get_array(), expected)
    red, _, blue, _ = np.moveaxis(image.cmap(image.norm(image.get_array())), -1, 0)
    np.testing.assert_array_equal(np.sign((blue - red).round(2)), np.sign(expected))
    scale = image.norm(np.array([-1, -0.125, 0, 0.008, 1]))
    np.testing.assert_allclose(scale, [0, 0.25, 0.5, 0.6, 1])  # by the cube root
    assert [text.get_text() for text in axes.child_axes[1].get_yticklabels()] == [
        "1", "0.5", "0.1", "0", "0.1", "0.5", "1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "num_classes, most, has_numbers",
    [(2, 9, True), (2, 1_000_000, True), (10, 99_999, True), (30, 99, True), (60, 99_999, False)],
)
def test_counts_are_written_if_they_fit(num_classes, most, has_numbers, saved, boxes, tmp_path):
    counts = np.eye(num_classes, dtype=int) * most
    counts[0] = most
    path = plot_confusion(counts, range(num_classes), tmp_path / "x.png")
    assert max(imread(path).shape) / 150 < 18  # inches
    axes = saved[0].axes[0]
    assert len(axes.texts) == has_numbers * (2 * num_classes - 1)
    left, _, right, _ = boxes([axes])[0]
    for box in boxes(list(axes.texts)) if has_numbers else ():
        assert (box[2:] - box[:2] < (right - left) / num_classes).all()


@pytest.mark.parametrize("num_classes", [2, 100])
def test_a_hundred_classes_have_labels_that_do_not_overlap(num_classes, saved, boxes, tmp_path):
    names = [f"{i} 고양이 {'long ' * 9}" for i in range(num_classes)]
    plot_confusion(np.eye(num_classes, dtype=int), names, tmp_path / "x.png")
    axes = saved[0].axes[0]
    for axis in (axes.xaxis, axes.yaxis):
        texts = [text.get_text() for text in axis.get_ticklabels()]
        assert [text.split()[0] for text in texts] == list(map(str, range(num_classes)))
        assert all("고양이" in text and text.endswith("…") for text in texts)
    labels = boxes(axes.get_yticklabels())
    assert (labels[1:, 3] < labels[:-1, 1]).all()  # each ends below the one before
    positions = [axes.transData.transform((x, 0))[0] for x in axes.get_xticks()]
    across = np.diff(positions) * math.sin(math.pi / 4)  # between the rotated lines of text
    assert (across > 1.15 * axes.get_xticklabels()[0].get_fontsize() * saved[0].dpi / 72).all()


def test_the_accuracy_of_each_class_is_at_its_side_and_of_all_in_the_title(saved, tmp_path):
    counts = [[9, 1, 0], [3, 5, 0], [0, 0, 0]]
    plot_confusion(counts, NAMES, tmp_path / "x.png")
    matrix = saved[0].axes[0]
    side = matrix.child_axes[0]
    assert [bar.get_width() for bar in side.patches] == [0.9, 0.625, 0]
    assert [text.get_text() for text in side.texts] == ["90%", "62%", ""]  # none of the third
    assert side.get_title() == "accuracy" and side.get_xlim() == (0, 1)
    assert side.get_ylim() == matrix.get_ylim()
    assert saved[0].get_suptitle() == "Confusion matrix: 14 of 18 right (77.8%)"


@pytest.mark.parametrize("num_classes", [2, 10, 100])
def test_matrix_bars_and_color_bar_are_beside_each_other(num_classes, saved, boxes, tmp_path):
    plot_confusion(np.eye(num_classes, dtype=int), range(num_classes), tmp_path / "x.png")
    matrix = saved[0].axes[0]
    edges = boxes([matrix, *matrix.child_axes])
    assert len(edges) == 3 and (edges[1:, 0] > edges[:-1, 2]).all()
    np.testing.assert_allclose(edges[:, [1, 3]], [edges[0, [1, 3]]] * 3, atol=1)


@pytest.mark.parametrize(
    "counts, names, message",
    [
        (np.ones((2, 3)), "ab", r"counts must have axes \(C, C\).*\(2, 3\)"),
        ([[0.5]], "a", "counts must be whole numbers; got 0.5 in"),
        ([[-1]], "a", "counts must be .* not below 0; got -1"),
        (COUNTS, "ab", "class_names must be 3 labels; got 2"),
    ],
)
def test_bad_arguments_are_refused(counts, names, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plot_confusion(counts, names, tmp_path / "new" / "x.png")
    with pytest.raises(ValueError, match="path must end in .png, .svg, .pdf; got path='x.gif'"):
        plot_confusion(COUNTS, NAMES, "x.gif")
    assert not list(tmp_path.iterdir())
