"""Fonts and text widths for any language, in plots and terminals, without system fonts."""

import textwrap
import unicodedata
from functools import cache

from matplotlib.font_manager import fontManager

from tfx_transformer.files import package_file

# Only the font files are used: importing these packages would change matplotlib's settings.
FILES = {"matplotlib_fontja": "ipaexg.ttf", "koreanize_matplotlib": "NanumGothic.ttf"}

# Japanese before Korean: NanumGothic has only some kanji, and a word would mix two fonts.
FAMILIES = ["DejaVu Sans", "IPAexGothic", "NanumGothic"]


@cache
def font_families() -> list[str]:
    """Font families for matplotlib, which uses for each letter the first that contains it."""
    for package, name in FILES.items():
        fontManager.addfont(package_file(package, f"fonts/{name}"))
    return FAMILIES


def check_labels(count: int, **named) -> list[str]:
    """`check_labels(3, keys=keys)`: exactly `count` labels, as strings."""
    ((name, labels),) = named.items()
    # NFC combines a letter with its accent, and the parts of a Korean syllable
    texts = [unicodedata.normalize("NFC", str(label)) for label in labels]
    if len(texts) != count:
        raise ValueError(f"{name} must be {count} labels; got {len(texts)}: {texts}")
    return texts


def text_columns(text: str) -> int:
    """Width of a text in terminal columns: two for each Korean or Japanese letter."""
    letters = [x for x in text if unicodedata.category(x) not in ("Mn", "Me", "Cf")]  # zero width
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in letters)


def pad_left(text: str, columns: int) -> str:
    """The text, right-aligned in so many columns."""
    return " " * (columns - text_columns(text)) + text


def shorten(text: str, columns: int = 24) -> str:
    """The text, cut to at most so many columns with an ellipsis."""
    if text_columns(text) <= columns:
        return text
    while text_columns(text) > columns - 1:
        text = text[:-1]
    return text + "…"


def wrap(text: str, columns: int) -> str:
    """The text in lines of about so many columns, broken at spaces."""
    return textwrap.fill(text, columns * max(len(text), 1) // max(text_columns(text), 1))
