"""What a trained classifier does with one picture, in pictures."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.callbacks import Record
from tfx_transformer.data.pixels import normalise
from tfx_transformer.image_plots import (
    plot_distances,
    plot_filters,
    plot_image_heads,
    plot_rollout,
    plot_similarities,
)
from tfx_transformer.plots import plot_curves
from tfx_transformer.rollout import (
    first_filters,
    mean_attention_distance,
    position_similarity,
    token_attention,
    token_rollout,
)
from tfx_transformer.train.folder import ClassifyRun

FILTERS = 28  # at most, as in the paper's picture


def draw_image(run: ClassifyRun, encoded: bytes, to=None, layer=-1, format="png") -> list[Path]:
    """Draws the rollout, heads, distances, positions, filters and learning curves.

    Args:
        run: from `load_run`.
        encoded: the bytes of a picture.
        to: where the pictures go; `pictures` in the run's folder if None.
        layer: which block; negative ones count from the last.
        format: "png", "svg" or "pdf".
    """
    model, classifier = run.model, run.classifier(1)
    depth, size = model.depth, model.image_size
    if not -depth <= layer < depth:
        raise ValueError(f"layer must be one of the {depth} blocks; got layer={layer}")
    to, layer = Path(to or run.folder / "pictures"), layer % depth

    images, is_readable = classifier.read(tf.constant([encoded]))
    if not is_readable[0]:
        raise ValueError(f"the picture cannot be read: {len(encoded):,} bytes {encoded[:8]!r} …")
    found = classifier.predict(images / 255)
    said = f"{found['label'][0].numpy().decode()}, {found['score'][0]:.0%}"
    seen = model.attention_maps(normalise(images, run.recipe.data.normalisation))
    maps = [np.asarray(weights)[0] for weights in seen.values()]  # (H, N, N) each
    grid, tokens = model.grid((1, size, size, 3)), model.num_tokens
    image = images[0].numpy() / 255
    block = f"block {layer + 1} of {depth}"

    def path(name):
        return to / f"{name}.{format}"

    return [
        plot_rollout(image, token_rollout(maps, grid, tokens), path("rollout"), said),
        plot_image_heads(
            image,
            token_attention(maps[layer], grid, tokens),
            path("heads"),
            f"where the heads look, {block}",
        ),
        plot_distances(
            mean_attention_distance(maps, grid, size // grid[0], tokens),
            path("distances"),
            "how far the heads look",
        ),
        plot_similarities(
            position_similarity(positions(model, grid)),
            grid,
            path("positions"),
            "how alike the positions are",
        ),
        plot_filters(filters(model), path("filters"), "the first filters"),
        plot_curves(Record(run.folder / "metrics.jsonl").read(), path("curves"), run.folder.name),
    ]


def positions(model, grid) -> np.ndarray:
    """What is added to each patch: (N, D)."""
    nothing = np.zeros((1, grid[0] * grid[1], model.dim), "float32")
    return np.asarray(model.place(nothing, grid=grid))[0]


def filters(model) -> np.ndarray:
    """The principal parts of the filters that see the pixels: (K, P, P, C)."""
    first = model.patches if model.patch_size else model.convolutions.convolutions[0]
    return first_filters(np.asarray(first.kernel), FILTERS)
