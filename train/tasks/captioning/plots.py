"""Plots of a captioner for one image."""

from pathlib import Path

import numpy as np

from tfx_transformer.data.text.tokenizer import END
from tfx_transformer.pipelines.base import decode_pieces
from tfx_transformer.train.run_folder import Run
from tfx_transformer.train.tasks.lines import read_picture
from tfx_transformer.visualization.images import plot_regions


def plot(run: Run, what: str, path, layer=None, word=None) -> list[Path]:
    """If the model has attention, the regions of an image for each word."""
    captioner = run.pipeline()
    images = read_picture(captioner, what)
    outputs = captioner.predict_pixels(images / 255)
    pieces, weights = decode_pieces(outputs["pieces"][0].numpy()), outputs["weights"][0].numpy()
    if pieces[-1:] == [run.task.tokenizer.pieces[END]]:
        pieces = pieces[:-1]
    if not pieces or not weights.any():
        return []
    words, regions = by_word(pieces, weights)
    title = f"Where each word attends: “{outputs['text'][0].numpy().decode()}”"
    return [plot_regions(images[0].numpy() / 255, regions, words, path("regions"), title)]


def by_word(pieces: list[str], weights: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Whole words, each with the mean attention of its subwords: (W, rows, columns).

    weights: (T, rows, columns), of the subwords; further rows are ignored.
    """
    starts = [i for i, piece in enumerate(pieces) if i == 0 or piece.startswith("▁")]
    spans = list(zip(starts, [*starts[1:], len(pieces)], strict=True))
    words = ["".join(pieces[a:b]).replace("▁", " ").strip() for a, b in spans]
    return words, np.array([weights[a:b].mean(axis=0) for a, b in spans])
