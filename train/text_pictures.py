"""What a trained model of texts does with one of them, in pictures."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.callbacks import Record
from tfx_transformer.curve_plots import plot_curves
from tfx_transformer.data import START
from tfx_transformer.data.labelled_batches import encode_rows
from tfx_transformer.plots import plot_heads
from tfx_transformer.train.folder import ClassifyTextRun, LanguageRun, MaskRun


def draw_text(
    run: LanguageRun | MaskRun | ClassifyTextRun, text: str, to=None, layer=-1, format="png"
) -> list[Path]:
    """Draws the learning curves, and what the heads of a block read in a text.

    Args:
        run: from `load_run`.
        text: of which the model's last, or first, positions are drawn.
        to: where the pictures go; `pictures` in the run's folder if None.
        layer: which block; negative ones count from the last.
        format: "png", "svg" or "pdf".
    """
    if not text.strip():
        raise ValueError(f"text must hold a word; got {text!r}")
    depth = run.model.depth
    if not -depth <= layer < depth:
        raise ValueError(f"layer must be one of the {depth} blocks; got layer={layer}")
    to, layer, title = Path(to or run.folder / "pictures"), layer % depth, ""
    if isinstance(run, LanguageRun):
        ids = [START, *run.tokenizer.encode_list([text])[0][1 - run.model.max_length :]]
        maps = run.model.attention_maps(tf.constant([ids]))
    else:
        tokens = encode_rows(run.tokenizer, tf.constant([text]), run.model.max_length)
        ids, maps = tokens[0].numpy(), run.model.attention_maps({"tokens": tokens})
    if isinstance(run, ClassifyTextRun):
        found = run.classifier(1).classify(tf.constant([text]))
        title = f"{found['label'][0].numpy().decode()}, {found['score'][0]:.0%}: "
    pieces = [run.tokenizer.pieces[id] for id in ids]
    weights = np.asarray(maps[f"block_{layer}/self"])[0]  # (H, T, T)
    title += f"what the heads read, block {layer + 1} of {depth}"
    records = Record(run.folder / "metrics.jsonl").read()
    return [
        plot_curves(records, to / f"curves.{format}", run.folder.name),
        plot_heads(weights, to / f"heads.{format}", pieces, pieces, title),
    ]
