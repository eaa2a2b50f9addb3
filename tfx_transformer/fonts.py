"""Texts in any language, in pictures and terminals, on a machine that has no fonts of its own."""

import unicodedata
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text

# Only the files are used: importing these packages would change matplotlib's settings for all.
FILES = {"matplotlib_fontja": "ipaexg.ttf", "koreanize_matplotlib": "NanumGothic.ttf"}

# Japanese before Korean: NanumGothic has some of the kanji, and a word would mix two hands.
FAMILIES = ["DejaVu Sans", "IPAexGothic", "NanumGothic"]

ENDINGS = (".png", ".svg", ".pdf")


@cache
def font_families() -> list[str]:
    """Font families for matplotlib, which draws each letter with the first that has it."""
    for package, name in FILES.items():
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"no package {package}, which brings the font {name}")
        fontManager.addfont(Path(spec.submodule_search_locations[0]) / "fonts" / name)
    return FAMILIES


def save_figure(figure: Figure, path) -> Path:
    """Writes all that is drawn, with fonts for its texts; makes the folder.

    The fonts are set text by text, because matplotlib's settings belong to all threads.
    """
    path = Path(path)
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"path must end in {', '.join(ENDINGS)}; got path={str(path)!r}")
    for text in figure.findobj(Text):
        text.set_fontfamily(font_families())
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    return path


def check_labels(count: int, **named) -> list[str]:
    """`check_labels(3, keys=keys)`: the labels as texts, of which there must be so many."""
    ((name, labels),) = named.items()
    # NFC makes one sign of a letter and its accent, or of the parts of a Korean letter
    texts = [unicodedata.normalize("NFC", str(label)) for label in labels]
    if len(texts) != count:
        raise ValueError(f"{name} must be {count} labels; got {len(texts)}: {texts}")
    return texts


def text_columns(text: str) -> int:
    """How many columns of a terminal a text takes: two for each Korean or Japanese letter."""
    return sum(map(_letter_columns, text))


def pad_left(text: str, columns: int) -> str:
    """The text at the right end of so many columns."""
    return " " * (columns - text_columns(text)) + text


def shorten(text: str, columns: int = 24) -> str:
    """The text itself, or its beginning and an ellipsis, in so many columns at most."""
    if text_columns(text) <= columns:
        return text
    while text_columns(text) > columns - 1:
        text = text[:-1]
    return text + "…"


def _letter_columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):  # stands on the letter before, or unseen
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
