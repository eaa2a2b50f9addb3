"""What the tasks on text share: splits of a text file, tokenizers in the run folder, plots."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tfx_transformer.data import Tokenizer, train_tokenizer
from tfx_transformer.data.text.language import load_text
from tfx_transformer.data.text.wordpiece import WordPiece
from tfx_transformer.train.run_folder import plot_training_curves
from tfx_transformer.train.tasks.language_model import PlainTextData

FRACTION = 0.05  # of a file, for each split without a file of its own
TOKENIZER = "tokenizer/text.model"


def read_splits(data: PlainTextData) -> dict[str, str]:
    """The texts of train, validation and test.

    Splits without a file are cut from the end of the training text, the test set last.
    """
    if not data.train:
        raise ValueError("data.train must name a text file; see --help")
    text = load_text(data.train)
    named = {"test": data.test, "validation": data.validation}
    splits, size = {}, max(round(FRACTION * len(text)), 1)
    for name, path in named.items():
        if path:
            splits[name] = load_text(path)
        else:
            text, splits[name] = cut(text, size)
    return {"train": text} | splits


def cut(text: str, size: int) -> tuple[str, str]:
    """A text without its last `size` characters, and these; cut at a line break if possible."""
    index = max(len(text) - size, 0)
    line = text.find("\n", max(index - 1, 0)) + 1
    index = line if 0 < line < len(text) else index
    return text[:index], text[index:]


def stored_tokenizer(folder: Path, make: Callable[[], Tokenizer]) -> Tokenizer:
    """The tokenizer of a run folder; made and saved if it is not there yet."""
    path = folder / TOKENIZER
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        make().save(path)
    return Tokenizer.load(path)


def sentence_tokenizer(data, texts: list[str], folder: Path) -> Tokenizer:
    """A SentencePiece tokenizer with the options of `data`, trained on texts."""
    normalization = "nmt_nfkc_cf" if data.lower_case else "nmt_nfkc"
    options = data.vocab_size, data.tokenizer, normalization
    return stored_tokenizer(folder, lambda: train_tokenizer(texts, *options))


def load_tokenizer(folder: Path) -> Tokenizer | WordPiece:
    """The tokenizer of a run folder: SentencePiece, or the vocabulary of a BERT."""
    path = folder / TOKENIZER
    return Tokenizer.load(path) if path.exists() else WordPiece.load(path.parent)


def plot_text(run, ids, attention_maps, to, layer: int, format: str, title="") -> list[Path]:
    """The learning curves, and the attention of each head in one block.

    Args:
        run: from `load_run`.
        ids: T token ids.
        attention_maps: of the model for these ids.
        to: folder of the pictures; `pictures` in the run's folder if None.
        layer: which block; negative ones count from the last.
        format: "png", "svg" or "pdf".
        title: stands before the title of the heads.
    """
    from tfx_transformer.visualization.attention import plot_heads

    depth = run.model.depth
    if not -depth <= layer < depth:
        raise ValueError(f"layer must be one of the {depth} blocks; got layer={layer}")
    to, layer = Path(to or run.folder / "pictures"), layer % depth
    pieces = [run.task.tokenizer.pieces[id] for id in ids]
    weights = np.asarray(attention_maps[f"block_{layer}/self"])[0]  # (H, T, T)
    title += f"attention of each head, block {layer + 1} of {depth}"
    return [
        plot_training_curves(run, to, format),
        plot_heads(weights, to / f"heads.{format}", pieces, pieces, title),
    ]


def check_text(text: str) -> None:
    if not text.strip():
        raise ValueError(f"the text must contain a word; got {text!r}")
