"""Plots of a text classifier for one text."""

from pathlib import Path

from tfx_transformer.train.tasks.masked_language_model.plots import plot as plot_encoder
from tfx_transformer.train.tasks.text import check_text


def plot(run, what: str, path, layer: int, word=None) -> list[Path]:
    """The predicted class, and the attention of each head."""
    check_text(what)
    ((label, score),) = run.pipeline(top_k=1)(what).items()
    return plot_encoder(run, what, path, layer, word, f"Predicted: {label} ({score:.0%})\n")
