"""Plots of a memory network for one story."""

import os
from pathlib import Path

import tensorflow as tf

from tfx_transformer.pipelines.question_answerer import split_sentences
from tfx_transformer.train.tasks.question_answering.command import read_story
from tfx_transformer.visualization.attention import plot_attention


def plot(run, what: str, path, layer=None, word=None) -> list[Path]:
    """Which sentences each hop attends to; `what` is a text, or a file, that ends in a question."""
    text = read_story(what) if os.path.isfile(what) else what
    *story, question = split_sentences(tf.constant([text])).to_list()[0] or [b""]
    if not story:
        raise ValueError(f"the text must be sentences and then a question; got {what!r:.80}")
    item = b"\n".join(story).decode(), question.decode()
    (result,) = run.pipeline().results([item])
    hops = [f"hop {i}" for i in range(1, len(result.hops) + 1)]
    title = f"{item[1]} {result.answer} ({result.score:.0%})"
    names = "sentence", "hop"
    return [plot_attention(result.hops.T, path("hops"), result.sentences, hops, title, names)]
