"""What a trained captioner says of one picture, and where it looked for each word."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.callbacks import Record
from tfx_transformer.caption_plots import plot_regions
from tfx_transformer.curve_plots import plot_curves
from tfx_transformer.data.tokenizer import END
from tfx_transformer.train.folder import CaptionRun


def draw_caption(run: CaptionRun, encoded: bytes, to=None, format="png") -> list[Path]:
    """Draws the regions behind each word, if the model attends to them, and the learning curves.

    Args:
        run: from `load_run`.
        encoded: the bytes of a picture.
        to: where the pictures go; `pictures` in the run's folder if None.
        format: "png", "svg" or "pdf".
    """
    to, captioner = Path(to or run.folder / "pictures"), run.captioner()
    images, is_readable = captioner.read(tf.constant([encoded]))
    if not is_readable[0]:
        raise ValueError(f"the picture cannot be read: {len(encoded):,} bytes {encoded[:8]!r} …")
    found = captioner.predict(images / 255)
    pieces = [piece.decode() for piece in found["pieces"][0].numpy() if piece]
    text, weights = found["text"][0].numpy().decode(), found["weights"][0].numpy()
    if pieces[-1:] == [run.tokenizer.pieces[END]]:
        pieces = pieces[:-1]

    records = Record(run.folder / "metrics.jsonl").read()
    paths = [plot_curves(records, to / f"curves.{format}", run.folder.name)]
    if pieces and weights.any():
        path = to / f"regions.{format}"
        words, seen = by_word(pieces, weights)
        paths.append(plot_regions(images[0].numpy() / 255, seen, words, path, text))
    return paths


def by_word(pieces: list[str], weights: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Whole words, each with the mean of what its pieces read: (W, rows, columns).

    Args:
        pieces: of a caption; "▁" stands before a word.
        weights: (T, rows, columns), of the pieces and, if there is more, of what follows them.
    """
    starts = [i for i, piece in enumerate(pieces) if i == 0 or piece.startswith("▁")]
    spans = list(zip(starts, [*starts[1:], len(pieces)], strict=True))
    words = ["".join(pieces[a:b]).replace("▁", " ").strip() for a, b in spans]
    return words, np.array([weights[a:b].mean(axis=0) for a, b in spans])
