"""The three parts of a text file."""

from tfx_transformer.data.language import load_text
from tfx_transformer.train.text_recipe import TextData

SHARE = 0.05  # of a file, for each part that has no file of its own


def read_splits(data: TextData) -> dict[str, str]:
    """The texts "train", "validation" and "test"; what is not named is cut from the end of the
    first, the test set last."""
    if not data.train:
        raise ValueError("data.train must name a text file; see --help")
    text = load_text(data.train)
    named = {"test": data.test, "validation": data.validation}
    splits, size = {}, max(round(SHARE * len(text)), 1)
    for name, path in named.items():
        if path:
            splits[name] = load_text(path)
        else:
            text, splits[name] = cut(text, size)
    return {"train": text} | splits


def cut(text: str, size: int) -> tuple[str, str]:
    """A text without its last `size` characters, and these; both end with a line, where that
    leaves something."""
    place = max(len(text) - size, 0)
    line = text.find("\n", max(place - 1, 0)) + 1
    place = line if 0 < line < len(text) else place
    return text[:place], text[place:]
