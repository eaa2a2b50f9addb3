"""Plots of a text-to-image model for one text."""

import io
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.data.text.tokenizer import PAD, START
from tfx_transformer.train.tasks.base import layer_index
from tfx_transformer.train.tasks.text import check_text
from tfx_transformer.visualization.images import plot_predictions, plot_regions

COUNT = 8  # images of a sheet


def plot(run, what: str, path, layer: int, word=None) -> list[Path]:
    """A sheet of images, and the attention from the tokens of the best one to each word."""
    check_text(what)
    drawer = run.pipeline(kind="sample", n_best=COUNT, seed=run.recipe.seed)
    (result,) = drawer.results([what])
    sheet = plot_sheet(result.n_best, path("sheet"), what)
    tokens, _ = drawer.sample(tf.constant([what]))
    best = tokens[:, 0]  # (1, T + I); with a seed those of the sheet
    index = layer_index(layer, run.model.depth, "block")
    words, maps = word_attention(run.model, drawer.tokenizer, what, best, index)
    title = f"Which image tokens attend to each word, block {index + 1}: “{what}”"
    return [sheet, plot_regions(drawer.pixels(best)[0].numpy(), maps, words, path("words"), title)]


def plot_sheet(images: list[tuple[bytes, float]], path, title: str) -> Path:
    """A grid of PNG files with their log-probabilities."""
    from PIL import Image

    pixels = [np.array(Image.open(io.BytesIO(image)).convert("RGB")) for image, _ in images]
    return plot_predictions(pixels, [f"{score:.1f}" for _, score in images], path, title)


def word_attention(model, tokenizer, text: str, tokens, block: int) -> tuple[list[str], np.ndarray]:
    """The W pieces of a text, and the attention to each from each image token: (W, rows, columns).

    The attention, a mean over heads, is that with which the model chooses the token of a cell.
    """
    inputs = tf.concat([tf.fill([1, 1], START), tokens[:, :-1]], axis=1)
    weights = np.asarray(model.attention_maps(inputs)[f"block_{block}/self"])[0].mean(axis=0)
    ids = tokenizer.encode_list([text])[0][: model.text_length]
    to_words = weights[model.text_length :, 1 : 1 + len(ids)]  # (I, W)
    maps = to_words.T.reshape(len(ids), *model.grid)
    return [tokenizer.pieces[id] for id in ids if id != PAD], maps
