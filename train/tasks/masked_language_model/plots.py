"""Plots of a masked language model for one text."""

from pathlib import Path

import tensorflow as tf

from tfx_transformer.data.text.labeled_batches import encode_rows
from tfx_transformer.train.tasks.text import check_text, plot_heads


def plot(run, what: str, path, layer: int, word=None, title="") -> list[Path]:
    """The attention of each head over the first tokens of a text."""
    check_text(what)
    tokens = encode_rows(run.task.tokenizer, tf.constant([what]), run.model.max_length)
    maps = run.model.attention_maps({"tokens": tokens})
    return [plot_heads(run, tokens[0].numpy(), maps, path, layer, title)]
