"""What a trained translator does with one sentence, in pictures."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.callbacks import Record
from tfx_transformer.curve_plots import plot_curves
from tfx_transformer.data import START
from tfx_transformer.layers import causal_mask
from tfx_transformer.lines import Translation, translate_lines
from tfx_transformer.plots import (
    plot_attention,
    plot_heads,
    plot_mask,
    plot_positions,
    plot_word,
)
from tfx_transformer.train.folder import TranslateRun

POSITIONS = 64  # of which the encoding is drawn


def draw(
    run: TranslateRun, sentence: str, to=None, layer=-1, word=None, format="png"
) -> list[Path]:
    """Draws the learning curves and all that the model's attention can show of a sentence.

    The alignment, if the decoder reads the source by attention; of a Transformer also its heads,
    one word's attention, the positions and the mask.

    Args:
        run: from `load_run`.
        sentence: in the source language.
        to: where the pictures go; `pictures` in the run's folder if None.
        layer: which block of encoder and decoder; negative ones count from the last.
        word: the source word whose attention is drawn; the longest piece if None.
        format: "png", "svg" or "pdf".
    """
    if not sentence.strip():
        raise ValueError(f"sentence must hold a word; got {sentence!r}")
    depth = min(run.model.depth, getattr(run.model, "decoder_depth", run.model.depth))
    if not -depth <= layer < depth:
        raise ValueError(f"layer must be one of the {depth} blocks; got layer={layer}")
    to, layer = Path(to or run.folder / "pictures"), layer % depth

    translator = run.translator()
    said = translator.translate(tf.constant([sentence]))
    found = next(translate_lines(lambda _: said, [sentence]))
    source, tokens = translator.encode(tf.constant([sentence])), said["tokens"]
    read = tf.concat([[[START]], tokens[:, : len(found.pieces) - 1]], axis=1)
    maps = run.model.attention_maps({"source": source, "target": read})

    def path(name):
        return to / f"{name}.{format}"

    records = Record(run.folder / "metrics.jsonl").read()
    paths = [plot_curves(records, path("curves"), run.folder.name)]
    if maps:
        labels = found.pieces, found.source_pieces
        paths.append(plot_attention(found.alignment, path("alignment"), *labels, found.text))
    if f"encoder_{layer}/self" in maps:
        paths += draw_blocks(run.model, maps, found, path, layer, word)
    return paths


def draw_blocks(model, maps, found: Translation, path, layer: int, word) -> list[Path]:
    """What is to be seen inside of a Transformer."""
    encoder, decoder, cross = (
        np.asarray(maps[name])[0]  # (H, T, S)
        for name in (f"encoder_{layer}/self", f"decoder_{layer}/self", f"decoder_{layer}/cross")
    )
    source, said, before = found.source_pieces, found.pieces, ["<s>", *found.pieces[:-1]]
    place = find_word(word, source)
    positions = model.source_position(np.zeros((1, POSITIONS, model.dim), "float32"))[0]
    mask = causal_mask(len(before), len(before))[0, 0]
    block = f"block {layer + 1}"
    reads = "the translation reads"
    return [
        plot_heads(
            encoder, path("encoder_heads"), source, source, f"the source reads itself, {block}"
        ),
        plot_heads(decoder, path("decoder_heads"), before, before, f"{reads} itself, {block}"),
        plot_heads(cross, path("cross_heads"), said, source, f"{reads} the source, {block}"),
        plot_word(encoder[:, place], path("word"), source, place, f"one word, {block}"),
        plot_positions(np.asarray(positions), path("positions"), "what is added to tell positions"),
        plot_mask(np.asarray(mask), path("mask"), before, before, "what the decoder may see"),
    ]


def find_word(word: str | None, pieces: list[str]) -> int:
    """Where a word begins among the pieces of a sentence; the longest piece if None."""
    bare = [piece.strip("▁") for piece in pieces]
    if word is None:
        return max(range(len(pieces) - 1), key=lambda i: len(bare[i]))  # END is the last
    for place, piece in enumerate(bare):
        if piece and pieces[place].startswith("▁") and word.startswith(piece):
            return place
    raise ValueError(f"word must begin like a piece of the sentence, {pieces}; got {word!r}")
