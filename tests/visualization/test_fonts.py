import sys
import unicodedata

import pytest
from matplotlib.font_manager import FontProperties, fontManager
from matplotlib.ft2font import FT2Font

from tfx_transformer.visualization import fonts
from tfx_transformer.visualization.fonts import (
    check_labels,
    font_families,
    pad_left,
    shorten,
    text_columns,
    wrap,
)


def family_of(letter):
    """The first family with that letter, read from the font files."""
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
        ("赤いリンゴ学校国際東京、。", "IPAexGothic"),  # one font for all kanji and kana
    ],
)
def test_every_letter_has_a_font(letters, family):
    assert {letter: family_of(letter) for letter in letters} == dict.fromkeys(letters, family)


def test_the_font_packages_are_not_imported():
    font_families()
    assert not {"koreanize_matplotlib", "matplotlib_fontja"} & set(sys.modules)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(fonts, "FILES", {"no_such_package": "some.ttf"})
    with pytest.raises(ModuleNotFoundError, match="some.ttf needs the package no_such_package"):
        font_families.__wrapped__()


def test_labels_are_strings_of_composed_letters():
    parts = unicodedata.normalize("NFD", "사과 é")
    assert len(parts) == 7 and check_labels(2, keys=(parts, 7)) == ["사과 é", "7"]
    with pytest.raises(ValueError, match=r"keys must be 2 labels; got 3: \['a', 'b', 'c'\]"):
        check_labels(2, keys="abc")


@pytest.mark.parametrize(
    "text, columns",
    [("", 0), ("▁red", 4), ("사과", 4), ("▁사과", 5), ("リンゴ", 6), ("ﾘﾝｺﾞ", 4), ("ａ", 2)]
    + [("e\u0301a", 2), ("a\u200bb", 2)],  # an accent and a zero-width space
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


def test_lines_are_wrapped_by_columns():
    assert wrap("red apples and pears", 10) == "red apples\nand pears"
    assert wrap("사과 배 포도", 8) == "사과 배\n포도"
    assert wrap("", 5) == ""
