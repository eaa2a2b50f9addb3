"""Plots of a captioner for one image."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.tokenizer import END
from tfx_transformer.pipelines.base import decode_pieces
from tfx_transformer.train.run_folder import Run, plot_training_curves
from tfx_transformer.train.tasks.lines import read_image_file
from tfx_transformer.visualization.images import plot_regions


def plot(run: Run, what: str, to=None, layer=-1, word=None, format="png") -> list[Path]:
    """The learning curves and, if the model has attention, the image regions of each word.

    Args:
        run: from `load_run`.
        what: an image file.
        to: folder of the pictures; `pictures` in the run's folder if None.
        layer, word: not used.
        format: "png", "svg" or "pdf".
    """
    to, captioner = Path(to or run.folder / "pictures"), run.pipeline()
    images, is_readable = captioner.read(tf.constant([read_image_file(what)]))
    if not is_readable[0]:
        raise ValueError(f"{what} is not an image that can be read")
    outputs = captioner.predict_pixels(images / 255)
    pieces, weights = decode_pieces(outputs["pieces"][0].numpy()), outputs["weights"][0].numpy()
    if pieces[-1:] == [run.task.tokenizer.pieces[END]]:
        pieces = pieces[:-1]
    paths = [plot_training_curves(run, to, format)]
    if pieces and weights.any():
        words, regions = by_word(pieces, weights)
        text, path = outputs["text"][0].numpy().decode(), to / f"regions.{format}"
        paths.append(plot_regions(images[0].numpy() / 255, regions, words, path, text))
    return paths


def by_word(pieces: list[str], weights: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Whole words, each with the mean attention of its subwords: (W, rows, columns).

    Args:
        pieces: subwords of a caption; "▁" stands before a word.
        weights: (T, rows, columns), of the subwords; further rows are ignored.
    """
    starts = [i for i, piece in enumerate(pieces) if i == 0 or piece.startswith("▁")]
    spans = list(zip(starts, [*starts[1:], len(pieces)], strict=True))
    words = ["".join(pieces[a:b]).replace("▁", " ").strip() for a, b in spans]
    return words, np.array([weights[a:b].mean(axis=0) for a, b in spans])
