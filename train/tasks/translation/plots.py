"""Plots of a translator for one sentence."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.data import START
from tfx_transformer.layers import causal_mask
from tfx_transformer.pipelines.translator import Translation
from tfx_transformer.train.run_folder import Run
from tfx_transformer.train.tasks.base import layer_index
from tfx_transformer.train.tasks.text import check_text
from tfx_transformer.visualization.attention import (
    plot_attention,
    plot_heads,
    plot_mask,
    plot_positions,
    plot_word,
)
from tfx_transformer.visualization.pieces import readable

POSITIONS = 64  # positions in the plot of the encoding
NAMES = ("translation", "source")  # of the rows and columns of cross-attention


def plot(run: Run, what: str, path, layer: int, word: str | None) -> list[Path]:
    """What the model's attention shows for a sentence in the source language.

    The alignment, if the decoder attends to the source; for a Transformer also its heads, the
    attention of one word, by default the longest subword, the position encoding and the causal
    mask.
    """
    check_text(what)
    model, translator = run.model, run.pipeline()
    depth = min(model.depth, getattr(model, "decoder_depth", model.depth))
    index = layer_index(layer, depth, "block")
    outputs = translator.explain(tf.constant([what]))
    result = Translation.unpack({name: value.numpy() for name, value in outputs.items()}, 0)
    source = translator.encode(tf.constant([what]))
    target = tf.concat([[[START]], outputs["tokens"][:, : len(result.pieces) - 1]], axis=1)
    maps = model.attention_maps({"source": source, "target": target})
    paths = []
    if maps:
        title = f"Which source words the translation attends to\n{what}\n→ {result.text}"
        labels = result.pieces, result.source_pieces, title, NAMES
        paths.append(plot_attention(result.alignment, path("alignment"), *labels))
    if f"encoder_{index}/self" in maps:
        paths += plot_blocks(model, maps, result, path, index, word)
    return paths


def plot_blocks(model, maps, result: Translation, path, index: int, word) -> list[Path]:
    """The heads of one block of a Transformer, one word, positions and mask."""
    encoder, decoder, cross = (
        np.asarray(maps[name])[0]  # (H, T, S)
        for name in (f"encoder_{index}/self", f"decoder_{index}/self", f"decoder_{index}/cross")
    )
    source, target, inputs = result.source_pieces, result.pieces, ["<s>", *result.pieces[:-1]]
    at, block = find_word(word, source), f"block {index + 1}"
    mask = np.asarray(causal_mask(len(inputs), len(inputs))[0, 0])
    titles = {
        "encoder": f"Which source words each source word attends to (encoder, {block})",
        "decoder": f"Which earlier words each target word attends to (decoder, {block})",
        "cross": f"Which source words each target word attends to (decoder, {block})",
        "word": f"What “{readable(source)[at]}” attends to, by head\n(encoder, {block})",
        "mask": "Which target words each target word may attend to: itself and those before",
    }
    paths = [
        plot_heads(encoder, path("encoder_heads"), source, source, titles["encoder"]),
        plot_heads(decoder, path("decoder_heads"), inputs, inputs, titles["decoder"]),
        plot_heads(cross, path("cross_heads"), target, source, titles["cross"], NAMES),
        plot_word(encoder[:, at], path("word"), source, at, titles["word"]),
        plot_mask(mask, path("mask"), inputs, inputs, titles["mask"]),
    ]
    if model.source_position:
        length = getattr(model.source_position, "max_length", POSITIONS)
        zeros = np.zeros((1, min(POSITIONS, length), model.dim), "float32")
        positions = np.asarray(model.source_position(zeros))[0]
        title = f"What is added to the word embeddings at the first {len(positions)} positions"
        paths.append(plot_positions(positions, path("positions"), title))
    return paths


def find_word(word: str | None, pieces: list[str]) -> int:
    """Index of the subword at which a word begins; of the longest subword if None."""
    bare = [piece.strip("▁") for piece in pieces]
    if word is None:
        return max(range(len(pieces) - 1), key=lambda i: len(bare[i]))  # END is the last
    for index, piece in enumerate(bare):
        if piece and pieces[index].startswith("▁") and word.startswith(piece):
            return index
    starts = ", ".join(piece for piece, full in zip(bare, pieces, strict=True) if full[:1] == "▁")
    raise ValueError(f"word must be one of the sentence, which begin: {starts}; got word={word!r}")
