"""Plots of a language model for one text."""

from pathlib import Path

import tensorflow as tf

from tfx_transformer.data import START
from tfx_transformer.train.tasks.text import check_text, plot_heads


def plot(run, what: str, path, layer: int, word=None) -> list[Path]:
    """The attention of each head over the last tokens of a text."""
    check_text(what)
    ids = [START, *run.task.tokenizer.encode_list([what])[0][1 - run.model.max_length :]]
    return [plot_heads(run, ids, run.model.attention_maps(tf.constant([ids])), path, layer)]
