"""Plots of a language model for one text."""

from pathlib import Path

import tensorflow as tf

from tfx_transformer.data import START
from tfx_transformer.train.tasks.text import check_text, plot_text


def plot(run, what: str, to=None, layer=-1, word=None, format="png") -> list[Path]:
    """The learning curves, and the attention of each head over the last tokens of a text."""
    check_text(what)
    ids = [START, *run.task.tokenizer.encode_list([what])[0][1 - run.model.max_length :]]
    maps = run.model.attention_maps(tf.constant([ids]))
    return plot_text(run, ids, maps, to, layer, format)
