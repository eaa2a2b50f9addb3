import sys
import unicodedata

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font

from tfx_transformer import fonts
from tfx_transformer.fonts import (
    check_labels,
    font_families,
    pad_left,
    save_figure,
    shorten,
    text_columns,
)


def drawn_with(letter):
    """The first of the families that has the letter, read from the font files."""
    for family in font_families():
        path = fontManager.findfont(FontProperties(family=[family]), fallback_to_default=False)
        if ord(letter) in FT2Font(path).get_charmap():
            return family
    return None


@pytest.mark.parametrize(
    "letters, family",
    [
        ("▁abzßäöüéèçœ…→", "DejaVu Sans"),
        ("빨간사과한국어뷁", "NanumGothic"),
        ("赤いリンゴ学校国際東京、。", "IPAexGothic"),  # one hand for all kanji and kana
    ],
)
def test_every_letter_has_a_font(letters, family):
    assert {letter: drawn_with(letter) for letter in letters} == dict.fromkeys(letters, family)


def test_the_packages_of_the_fonts_are_not_imported():
    font_families()
    assert not {"koreanize_matplotlib", "matplotlib_fontja"} & set(sys.modules)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(fonts, "FILES", {"no_such_package": "some.ttf"})
    with pytest.raises(ModuleNotFoundError, match="no_such_package.*some.ttf"):
        font_families.__wrapped__()


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


def test_a_letter_without_a_font_is_told(tmp_path):
    figure = Figure()
    figure.text(0, 0, "们")  # simplified Chinese: the other tests would fail like this
    with pytest.warns(UserWarning, match="Glyph 20204"):
        save_figure(figure, tmp_path / "x.png")


@pytest.mark.parametrize("name", ["x.jpg", "x", "png"])
def test_an_ending_that_is_not_known_is_refused_and_leaves_nothing(name, tmp_path):
    with pytest.raises(ValueError, match=f"path must end in .png, .svg, .pdf; got path=.*{name}"):
        save_figure(Figure(), tmp_path / "new" / name)
    assert not list(tmp_path.iterdir())


def test_labels_are_texts_of_whole_letters():
    parts = unicodedata.normalize("NFD", "사과 é")
    assert len(parts) == 7 and check_labels(2, keys=(parts, 7)) == ["사과 é", "7"]
    with pytest.raises(ValueError, match=r"keys must be 2 labels; got 3: \['a', 'b', 'c'\]"):
        check_labels(2, keys="abc")


@pytest.mark.parametrize(
    "text, columns",
    [("", 0), ("▁red", 4), ("사과", 4), ("▁사과", 5), ("リンゴ", 6), ("ﾘﾝｺﾞ", 4), ("ａ", 2)]
    + [("e\u0301a", 2), ("a\u200bb", 2)],  # an accent and a space of no width
)
def test_a_korean_or_japanese_letter_is_two_columns_wide(text, columns):
    assert text_columns(text) == columns
    assert pad_left(text, columns + 3) == "   " + text


@pytest.mark.parametrize(
    "text, short",
    [
        ("apple", "apple"),
        ("apples", "appl…"),
        ("사과", "사과"),
        ("사과나무", "사과…"),
        ("a사과나", "a사…"),
    ],
)
def test_a_long_text_is_cut_to_its_columns(text, short):
    assert shorten(text, 5) == short
