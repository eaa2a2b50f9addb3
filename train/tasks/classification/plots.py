"""Plots of an image classifier for one image."""

import math
from pathlib import Path

import numpy as np

from tfx_transformer.data.images.pixels import normalize
from tfx_transformer.models.vit import ViT
from tfx_transformer.train.run_folder import Run
from tfx_transformer.train.tasks.base import layer_index
from tfx_transformer.train.tasks.lines import read_picture
from tfx_transformer.visualization.images import (
    plot_distances,
    plot_filters,
    plot_image_heads,
    plot_rollout,
    plot_similarities,
)
from tfx_transformer.visualization.rollout import (
    first_filters,
    mean_attention_distance,
    position_similarity,
    token_attention,
    token_rollout,
)

FILTERS = 28  # at most, as in the paper's figure
MIN_FILTER = 5  # pixels; smaller filters show nothing


def plot(run: Run, what: str, path, layer: int, word=None) -> list[Path]:
    """What the model's attention shows for an image.

    The heads of one layer, if it attends to the whole image; for a ViT also the attention rollout,
    attention distances, position similarities and the first filters, if these are not tiny.
    """
    model, classifier = run.model, run.pipeline(top_k=1)
    images = read_picture(classifier, what)
    outputs = classifier.predict_pixels(images / 255)
    prediction = f"Predicted: {outputs['label'][0].numpy().decode()} ({outputs['score'][0]:.0%})"
    maps = model.attention_maps(normalize(images, run.recipe.data.normalization))
    maps = [np.asarray(weights)[0] for weights in maps.values()]  # (H, N, N) each
    if not maps:
        return []
    index = layer_index(layer, len(maps), "layer with attention")
    if maps[index].shape[1] != maps[index].shape[2]:  # of neighbors alone
        return []
    image, num_tokens = images[0].numpy() / 255, getattr(model, "num_tokens", 0)
    side = math.isqrt(maps[index].shape[1] - num_tokens)  # images are squares
    heads = token_attention(maps[index], (side, side), num_tokens)
    title = f"{prediction}\nWhere each head attends, block {index + 1} of {len(maps)}"
    paths = [plot_image_heads(image, heads, path("heads"), title)]
    if isinstance(model, ViT):
        paths += plot_vit(model, image, maps, path, prediction)
    return paths


def plot_vit(model: ViT, image, maps, path, prediction: str) -> list[Path]:
    """Plots that only a Vision Transformer has."""
    size, num_tokens = model.image_size, model.num_tokens
    grid = model.grid((1, size, size, 3))
    distances = mean_attention_distance(maps, grid, size // grid[0], num_tokens)
    zeros = np.zeros((1, grid[0] * grid[1], model.dim), "float32")
    positions = np.asarray(model.position_embedding(zeros, grid=grid))[0]  # (N, D)
    similarity = position_similarity(positions)
    titles = {
        "rollout": f"{prediction}\nWhere the attention of all blocks together goes (rollout)",
        "distances": "How far each head attends, block by block",
        "positions": "Similarity of each position embedding to all others",
        "filters": "First filters: principal components of the patch embedding",
    }
    rollout = token_rollout(maps, grid, num_tokens)
    paths = [
        plot_rollout(image, rollout, path("rollout"), titles["rollout"]),
        plot_distances(distances, path("distances"), titles["distances"]),
        plot_similarities(similarity, grid, path("positions"), titles["positions"]),
    ]
    first = model.patches if model.patch_size else model.convolutions.convolutions[0]
    if min(first.kernel.shape[:2]) >= MIN_FILTER:
        filters = first_filters(np.asarray(first.kernel), FILTERS)  # (K, P, P, C)
        paths.append(plot_filters(filters, path("filters"), titles["filters"]))
    return paths
