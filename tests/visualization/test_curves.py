"""The plots are checked by the artists of the saved figure."""

import math

import numpy as np
import pytest
from matplotlib.image import imread

from tfx_transformer.visualization.curves import plot_by_length, plot_curves

RECORDS = [
    {"step": 500, "loss": 2.5, "perplexity": 11.0, "bleu": 21.0, "tokens_per_second": 900.0},
    {"step": 250, "loss": 5.0, "perplexity": 140.0, "bleu": 9.5},
    {"step": 750, "loss": math.nan, "perplexity": None, "bleu": 21.0},
    {"step": 1000, "loss": 2.0, "perplexity": 8.0, "bleu": 20.0},
]


def test_the_curves_are_the_records_and_the_best_bleu_is_marked(saved, tmp_path):
    plot_curves(RECORDS, tmp_path / "x.png")
    loss, perplexity, bleu = saved[0].axes  # chrF was not recorded
    titles = [axes.get_title() for axes in saved[0].axes]
    assert titles == ["loss", "validation perplexity", "validation BLEU"]
    np.testing.assert_allclose(loss.lines[0].get_xydata(), [[250, 5], [500, 2.5], [1000, 2]])
    np.testing.assert_allclose(perplexity.lines[0].get_ydata(), [140, 11, 8])
    assert (loss.get_yscale(), perplexity.get_yscale()) == ("linear", "log")
    assert {"10", "20", "50", "100"} <= set(
        [text.get_text() for text in perplexity.get_yticklabels()]
    )
    np.testing.assert_allclose(bleu.lines[0].get_xdata(), [250, 500, 750, 1000])
    np.testing.assert_allclose(bleu.lines[1].get_xydata(), [[500, 21]])  # the first of two
    assert bleu.get_legend().texts[0].get_text() == "best: 21.00 at step 500"


@pytest.mark.parametrize(
    "validation, expected",
    [
        ([{"validation_loss": 2.0}, {"validation_loss": 1.0, "perplexity": 9.0}], [2, 1]),
        ([{"perplexity": math.exp(3)}, {"perplexity": math.exp(2)}], [3, 2]),
        ([{"perplexity": math.nan}, {"perplexity": 1.0}], [0]),
        ([{}, {}], None),
    ],
)
def test_training_and_validation_loss_are_in_one_panel(validation, expected, saved, tmp_path):
    lines = [{"step": 10 * i, "loss": 3.0} | own for i, own in enumerate(validation)]
    plot_curves(lines, tmp_path / "x.png")
    axes = saved[0].axes[0]
    both = {"training": [3, 3]} | ({"validation": expected} if expected else {})
    for line, (name, values) in zip(axes.lines, both.items(), strict=True):
        assert line.get_label() == name and line.get_ydata() == pytest.approx(values)
    assert [text.get_text() for text in axes.get_legend().texts] == list(both)
    assert len({line.get_color() for line in axes.lines}) == len(both)


def test_a_loss_that_falls_by_more_than_ten_times_has_a_log_scale(saved, tmp_path):
    for last in (0.5, 0.2):
        lines = [{"step": 1, "loss": 3.0}, {"step": 2, "loss": 1.0, "validation_loss": last}]
        plot_curves(lines, tmp_path / "x.png")
    assert [figure.axes[0].get_yscale() for figure in saved] == ["linear", "log"]


@pytest.mark.parametrize(
    "name, title", [("bleu_4", "validation BLEU-4"), ("accuracy", "validation accuracy, %")]
)
def test_the_best_bleu_4_and_accuracy_are_marked(name, title, saved, tmp_path):
    plot_curves(
        [{"step": 20 * i, name: value} for i, value in enumerate([3, 9, 7])], tmp_path / "x.png"
    )
    (axes,) = saved[0].axes
    assert axes.get_title() == title
    assert axes.get_legend().texts[0].get_text() == "best: 9.00 at step 20"


def test_bleu_by_length_has_a_line_for_each_model(saved, tmp_path):
    scores = {"학습 LSTM": [30.0, 20.0], "attention": [31.0, 30.0]}
    path = plot_by_length([7.5, 20.0], scores, tmp_path / "x.png", "学習")
    assert imread(path)[..., :3].std() > 0.05
    (axes,) = saved[0].axes
    assert [text.get_text() for text in saved[0].legends[0].texts] == list(scores)
    for line, values in zip(axes.lines, scores.values(), strict=True):
        np.testing.assert_allclose(line.get_xydata(), [*zip([7.5, 20.0], values, strict=True)])
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize(
    "plot, message",
    [
        (lambda p: plot_curves([], p), r"lines must hold some of loss, .*; got lines=\[\]"),
        (lambda p: plot_curves([{"step": 1}], p), "lines must hold some of loss"),
        (lambda p: plot_curves([{"loss": 1}], p), "lines must each have a step; got {'loss': 1}"),
        (lambda p: plot_by_length([1, 2], {}, p), "scores must contain at least one model"),
        (lambda p: plot_by_length([1, 2], {"a": [3]}, p), "hold 2 numbers, as lengths; 'a' has 1"),
    ],
)
def test_bad_arguments_are_refused(plot, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        plot(tmp_path / "new" / "x.png")
    assert not list(tmp_path.iterdir())
