"""Checks by a program whether a picture shows the scene of its caption.

    judge_scene(image, "a small red circle above a blue square")
    → {"count": True, "shape": True, "color": True, "size": False, "relation": True}

Each pixel gets the nearest of the colors of scenes and of their background. Connected pixels that
are not background are an object: most pixels decide its color, the sides of its bounding box its
size, and the shape that overlaps it best is its shape.
"""

import itertools
from dataclasses import dataclass

import numpy as np

from tfx_transformer.data.captions.scenes import (
    BACKGROUND,
    COLORS,
    RELATIONS,
    SHAPES,
    SIZES,
    Scene,
    SceneObject,
    parse_caption,
    shape_mask,
)

ATTRIBUTES = ("count", "shape", "color", "size", "relation")
MIN_AREA = 6  # pixels of an object; fewer are ignored
MIN_OVERLAP = 0.75  # of an object and its shape: intersection over union
MAX_ASPECT = 1.35  # of the sides of a bounding box
LIMIT = (max(SIZES["small"]) + min(SIZES["large"])) / 2  # sides of small objects are below it


@dataclass(frozen=True)
class FoundObject:
    """An object in a picture, whose shape may be unknown, "", and its center (x, y)."""

    size: str
    color: str
    shape: str
    center: tuple[float, float]


def check_scene(image: np.ndarray, caption: str) -> bool:
    """Whether a picture (32, 32, 3), uint8, shows all that its caption says and nothing else."""
    return all(judge_scene(image, caption).values())


def judge_scene(image: np.ndarray, caption: str) -> dict[str, bool]:
    """Which attributes of a caption a picture shows, for all of its objects.

    With a wrong number of objects all are False. Otherwise the objects that were found are those of
    the caption in the order in which most attributes are right.
    """
    scene, found = parse_caption(caption), find_objects(image)
    if len(found) != len(scene.objects):
        return dict.fromkeys(ATTRIBUTES, False)
    orders = [compare(scene, order) for order in itertools.permutations(found)]
    return max(orders, key=lambda judged: sum(judged.values()))


def compare(scene: Scene, found: tuple[FoundObject, ...]) -> dict[str, bool]:
    """Which attributes of a scene objects have, in its order."""

    def same(attribute, wanted: SceneObject, own: FoundObject) -> bool:
        value = getattr(wanted, attribute)
        return value is None or value == getattr(own, attribute)

    pairs = list(zip(scene.objects, found, strict=True))
    judged = {name: all(same(name, *pair) for pair in pairs) for name in ATTRIBUTES[1:4]}
    relation = scene.relation is None or find_relation(*found) == scene.relation
    return {"count": True} | judged | {"relation": relation}


def find_relation(first: FoundObject, second: FoundObject) -> str:
    """The relation of the first object to the second, by the longer distance of their centers."""
    offsets = [a - b for a, b in zip(first.center, second.center, strict=True)]
    axis = 0 if abs(offsets[0]) >= abs(offsets[1]) else 1
    return max(RELATIONS, key=lambda name: RELATIONS[name][axis] * offsets[axis])


def find_objects(image: np.ndarray) -> list[FoundObject]:
    """The objects of a picture (h, w, 3), uint8."""
    palette = np.array([BACKGROUND, *COLORS.values()], "float32")
    distance = ((image[:, :, None].astype("float32") - palette) ** 2).sum(axis=-1)
    colors = distance.argmin(axis=-1)  # (h, w), 0 is background
    objects = []
    for mask in connected_parts(colors > 0):
        rows, columns = np.nonzero(mask)
        top, bottom, left, right = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
        side = max(bottom - top, right - left)
        color = [*COLORS][np.bincount(colors[mask]).argmax() - 1]
        shape = find_shape(mask[top:bottom, left:right])
        center = (left + right) / 2, (top + bottom) / 2
        objects.append(FoundObject("small" if side < LIMIT else "large", color, shape, center))
    return objects


def find_shape(mask: np.ndarray) -> str:
    """The shape that overlaps a mask in its bounding box best, or "" if none does well."""
    height, width = mask.shape
    if max(height, width) > MAX_ASPECT * min(height, width):
        return ""
    shapes = {name: shape_mask(name, height, width) >= 0.5 for name in SHAPES}
    overlaps = {name: (mask & own).sum() / (mask | own).sum() for name, own in shapes.items()}
    best = max(overlaps, key=overlaps.__getitem__)
    return best if overlaps[best] >= MIN_OVERLAP else ""


def connected_parts(mask: np.ndarray) -> list[np.ndarray]:
    """The masks of the parts of a mask (h, w) that are connected by sides, without tiny ones."""
    labels = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:  # each pixel takes the largest label beside it
        padded = np.pad(labels, 1)
        beside = [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:], labels]
        spread = np.where(mask, np.max(beside, axis=0), 0)
        if (spread == labels).all():
            break
        labels = spread
    parts = [labels == label for label in np.unique(labels[mask])]
    return [part for part in parts if part.sum() >= MIN_AREA]
