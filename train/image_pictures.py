"""What a trained classifier does with one picture, in pictures."""

import math
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfx_transformer.callbacks import Record
from tfx_transformer.curve_plots import plot_curves
from tfx_transformer.data.pixels import normalise
from tfx_transformer.image_plots import (
    plot_distances,
    plot_filters,
    plot_image_heads,
    plot_rollout,
    plot_similarities,
)
from tfx_transformer.models.vit import ViT
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
    """Draws the learning curves and all that the model's attention can show of a picture.

    Where the heads of a layer look, if they may look everywhere; of a ViT also the rollout, how far
    its heads look, its positions and its first filters.

    Args:
        run: from `load_run`.
        encoded: the bytes of a picture.
        to: where the pictures go; `pictures` in the run's folder if None.
        layer: which of the layers that attend; negative ones count from the last.
        format: "png", "svg" or "pdf".
    """
    model, classifier, to = run.model, run.classifier(1), Path(to or run.folder / "pictures")
    images, is_readable = classifier.read(tf.constant([encoded]))
    if not is_readable[0]:
        raise ValueError(f"the picture cannot be read: {len(encoded):,} bytes {encoded[:8]!r} …")
    found = classifier.predict(images / 255)
    said = f"{found['label'][0].numpy().decode()}, {found['score'][0]:.0%}"
    seen = model.attention_maps(normalise(images, run.recipe.data.normalisation))
    maps = [np.asarray(weights)[0] for weights in seen.values()]  # (H, N, N) each
    if maps and not -len(maps) <= layer < len(maps):
        raise ValueError(f"layer must be one of the {len(maps)} that attend; got layer={layer}")
    image = images[0].numpy() / 255

    def path(name):
        return to / f"{name}.{format}"

    paths = [
        plot_curves(Record(run.folder / "metrics.jsonl").read(), path("curves"), run.folder.name)
    ]
    if not maps or maps[layer].shape[1] != maps[layer].shape[2]:  # none, or of neighbours alone
        return paths
    tokens = getattr(model, "num_tokens", 0)
    side = math.isqrt(maps[layer].shape[1] - tokens)  # images are squares
    looks = token_attention(maps[layer], (side, side), tokens)
    name = f"where the heads look, {[*seen][layer].removesuffix('/self')}"
    paths.append(plot_image_heads(image, looks, path("heads"), name))
    return paths + (draw_vit(model, image, maps, path, said) if isinstance(model, ViT) else [])


def draw_vit(model: ViT, image, maps, path, said: str) -> list[Path]:
    """What is to be seen of a Vision Transformer alone."""
    size, tokens = model.image_size, model.num_tokens
    grid = model.grid((1, size, size, 3))
    return [
        plot_rollout(image, token_rollout(maps, grid, tokens), path("rollout"), said),
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
    ]


def positions(model, grid) -> np.ndarray:
    """What is added to each patch: (N, D)."""
    nothing = np.zeros((1, grid[0] * grid[1], model.dim), "float32")
    return np.asarray(model.place(nothing, grid=grid))[0]


def filters(model) -> np.ndarray:
    """The principal parts of the filters that see the pixels: (K, P, P, C)."""
    first = model.patches if model.patch_size else model.convolutions.convolutions[0]
    return first_filters(np.asarray(first.kernel), FILTERS)
