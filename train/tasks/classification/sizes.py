"""Sizes of an image classifier for a set of images."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from tfx_transformer.data.images.sources import Images
from tfx_transformer.train.recipe import fill
from tfx_transformer.train.tasks.classification import ClassificationRecipe

SMALL_SIDE = 48  # pixels, up to which the images are not reduced
SMALL = (  # compact transformers for such images: conv_depth, dim, depth, num_heads, mlp_dim
    (3, 128, 3, 2, 256),
    (3, 192, 5, 3, 384),
    (2, 256, 6, 4, 512),
)
PHOTOS = (  # image_size and the same
    (64, 3, 128, 4, 2, 256),
    (96, 4, 192, 5, 3, 384),
    (128, 4, 192, 6, 3, 384),
    (160, 4, 256, 7, 4, 512),
)


def propose_sizes(recipe: ClassificationRecipe, images: Images) -> list[ClassificationRecipe]:
    """Recipes for training images, from small to large; options that are set stay."""
    if recipe.model.is_sized:
        return [recipe]
    from tfx_transformer.train.recipes import RECIPES

    default: Any = RECIPES["classify"]
    side, is_gray = measure_images(images)
    size = max(8 * round(side / 8), 8)
    rows = [(size, *row) for row in SMALL] if side <= SMALL_SIDE else PHOTOS
    batch_size = 128 if len(images) > 10_000 else 64 if len(images) > 1_000 else 32
    data = fill(recipe.data, default.data, batch_size=batch_size)
    augment = fill(recipe.augment, default.augment, flip=not is_gray)
    if side <= SMALL_SIDE:
        augment = fill(augment, default.augment, crop="pad", rand_augment=0)
    found = []
    for image_size, conv_depth, dim, depth, num_heads, mlp_dim in rows:
        if image_size <= max(size, PHOTOS[0][0]):
            sizes: dict[str, Any] = dict(
                image_size=image_size, conv_depth=conv_depth, dim=dim, depth=depth
            )
            sizes |= dict(num_heads=num_heads, mlp_dim=mlp_dim, num_tokens=0, pool="sequence")
            model = replace(recipe.model, options=sizes | {"drop_path": 0.1} | recipe.model.options)
            found.append(replace(recipe, data=data, augment=augment, model=model))
    return found


def measure_images(images: Images, count: int = 100) -> tuple[int, bool]:
    """The median of the shorter sides of some images, and whether all of them are gray."""
    sides, modes = [], set()
    for row in np.linspace(0, len(images) - 1, count).astype(int):
        with Image.open(io.BytesIO(images.items[row])) as image:
            sides.append(min(image.size))
            modes.add(image.mode)
    return int(np.median(sides)), modes <= {"1", "L", "I;16"}
