"""Scenes: pictures of one or two simple objects with their captions, made by a program.

    "a small red circle above a large blue square"
    "a green triangle"

A picture has 32 × 32 pixels. In captions of the training set sizes are sometimes left out. The test
and validation sets hold captions of two objects whose colored shapes, such as "red circle" and
"blue square", are never together in a training picture. `scene_check.py` checks pictures.
"""

import functools
import io
import itertools
import re
from dataclasses import dataclass

import numpy as np

from tfx_transformer.checks import check_positive
from tfx_transformer.data.splits import SPLITS, assign_split

SOURCE = "embedded:scenes"
PIXELS = 32  # height and width of a picture
BACKGROUND = (240, 240, 240)
COLORS = {
    "red": (214, 40, 40),
    "yellow": (240, 200, 20),
    "green": (30, 150, 50),
    "cyan": (30, 190, 205),
    "blue": (40, 70, 210),
    "purple": (150, 40, 190),
}
GRID = 4  # places and sides of objects are multiples of it, in pixels
SIZES = {"small": (8,), "large": (12,)}  # heights and widths in pixels
SHAPES = ("circle", "square", "triangle")
RELATIONS = {  # the direction from the second object to the first: right, down
    "left of": (-1, 0),
    "right of": (1, 0),
    "above": (0, -1),
    "below": (0, 1),
}
GAP = 4  # least number of pixels between two objects
SLOPE = 0.6  # an object left of another is at most this much higher or lower, as a ratio
SAMPLES = 4  # per pixel and axis, for smooth edges
NUM_TRAINING, NUM_HELD_OUT = 10_000, 500  # pictures of a split
SINGLE, UNSIZED = 0.15, 0.25  # fractions of single objects, and of objects without a size

_OBJECT = f"an? (?:({'|'.join(SIZES)}) )?({'|'.join(COLORS)}) ({'|'.join(SHAPES)})"
_CAPTION = re.compile(f"{_OBJECT}(?: ({'|'.join(RELATIONS)}) {_OBJECT})?")


@dataclass(frozen=True)
class SceneObject:
    """An object of a scene; a size of None is any size."""

    size: str | None
    color: str
    shape: str

    @property
    def kind(self) -> str:
        return f"{self.color} {self.shape}"

    def __str__(self) -> str:
        return f"a {self.size} {self.kind}" if self.size else f"a {self.kind}"


@dataclass(frozen=True)
class Scene:
    """What a caption says: one object, or two and the relation of the first to the second."""

    objects: tuple[SceneObject, ...]
    relation: str | None = None

    def __str__(self) -> str:
        return f" {self.relation} ".join(map(str, self.objects))


def parse_caption(caption: str) -> Scene:
    """The scene of a caption such as "a small red circle above a blue square"."""
    found = _CAPTION.fullmatch(" ".join(caption.lower().split()))
    if not found:
        raise ValueError(
            "the caption must be like 'a small red circle above a blue square', with "
            f"{', '.join([*SIZES, *COLORS, *SHAPES, *RELATIONS])}; got {caption!r}"
        )
    *first, relation = found.groups()[:4]
    objects = (SceneObject(*first), *([SceneObject(*found.groups()[4:])] if relation else []))
    return Scene(objects, relation)


@functools.cache
def shape_mask(shape: str, height: int, width: int) -> np.ndarray:
    """The part of each pixel (height, width) that a shape of this size covers, in 0 … 1."""
    y = (np.arange(height * SAMPLES) + 0.5)[:, None] / (height * SAMPLES)  # 0 … 1 from the top
    x = (np.arange(width * SAMPLES) + 0.5) / (width * SAMPLES)
    inside = {
        "circle": (2 * x - 1) ** 2 + (2 * y - 1) ** 2 <= 1,
        "square": np.ones((y.size, x.size), bool),
        "triangle": np.abs(2 * x - 1) <= y,
    }[shape]
    return inside.reshape(height, SAMPLES, width, SAMPLES).mean(axis=(1, 3))


def draw_scene(scene: Scene, rng: np.random.Generator) -> np.ndarray:
    """A picture (32, 32, 3) of a scene, uint8; positions and exact sizes are random."""
    sides = [random_side(x.size, rng) for x in scene.objects]
    image = np.full((PIXELS, PIXELS, 3), BACKGROUND, "float32")
    corners = place_objects(sides, scene.relation, rng)
    for part, side, (left, top) in zip(scene.objects, sides, corners, strict=True):
        mask = shape_mask(part.shape, side, side)[:, :, None]
        area = image[top : top + side, left : left + side]
        area += mask * (np.array(COLORS[part.color]) - area)
    return np.round(image).astype("uint8")


def random_side(size: str | None, rng: np.random.Generator) -> int:
    """The height and width in pixels of an object."""
    sides = SIZES[size] if size else [side for both in SIZES.values() for side in both]
    return sides[rng.integers(len(sides))]


def place_objects(
    sides: list[int], relation: str | None, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Random (left, top) of one or two squares of these sides, the first in a relation."""
    cells = PIXELS // GRID
    sides = [side // GRID for side in sides]
    if relation is None:
        return [tuple(GRID * int(rng.integers(cells - side + 1)) for side in sides * 2)]
    direction = RELATIONS[relation]
    axis = 0 if direction[0] else 1
    order = (0, 1) if direction[axis] < 0 else (1, 0)  # indices of the near and the far object
    near, far = (sides[i] for i in order)
    gap = GAP // GRID
    spare = cells - near - far - gap
    start = int(rng.integers(spare + 1))
    end = int(rng.integers(start, spare + 1)) + near + gap
    distance = end + far / 2 - start - near / 2
    across = int(rng.integers(cells - near + 1))
    center, most = across + near / 2, SLOPE * distance
    low = max(0, int(np.ceil(center - most - far / 2)))
    high = min(cells - far, int(np.floor(center + most - far / 2)))
    other = int(rng.integers(low, high + 1))
    pairs = [
        (GRID * start, GRID * across),
        (GRID * end, GRID * other),
    ]  # (along, across) of the near and the far object
    corners = [pair if axis == 0 else pair[::-1] for pair in pairs]
    return [corners[order.index(i)] for i in range(2)]


def split_of(first: SceneObject, second: SceneObject) -> str:
    """The split of two objects: it depends on their colors and shapes alone."""
    return assign_split(", ".join(sorted([first.kind, second.kind])))


def all_scenes(split: str) -> list[Scene]:
    """Every scene of two objects with their sizes in a split."""
    objects = [SceneObject(*parts) for parts in itertools.product(SIZES, COLORS, SHAPES)]
    pairs = itertools.product(objects, objects)
    return [Scene(x, y) for x in pairs if split_of(*x) == split for y in RELATIONS]


def make_scenes(split: str, count: int | None = None) -> tuple[list[str], np.ndarray]:
    """Captions and pictures (N, 32, 32, 3) of a split, always the same ones.

    Args:
        split: "train"; or "validation" or "test", whose captions all differ and name all sizes.
        count: N, at most 500 for the others; 10,000 for training and 500 if None.
    """
    count = NUM_TRAINING if count is None else count
    check_positive(count=count)
    rng = np.random.default_rng([SPLITS.index(split), 32])
    known = all_scenes(split)
    if split == "train":
        scenes = [random_scene(known, rng) for _ in range(count)]
    else:
        scenes = [known[i] for i in rng.permutation(len(known))[: min(count, NUM_HELD_OUT)]]
    return [str(scene) for scene in scenes], np.stack([draw_scene(x, rng) for x in scenes])


def random_scene(known: list[Scene], rng: np.random.Generator) -> Scene:
    """One of the known scenes, or one of its objects, perhaps without sizes."""
    scene = known[rng.integers(len(known))]
    objects = tuple(
        SceneObject(None if rng.random() < UNSIZED else x.size, x.color, x.shape)
        for x in scene.objects
    )
    return Scene(objects[:1]) if rng.random() < SINGLE else Scene(objects, scene.relation)


def encode_png(image: np.ndarray) -> bytes:
    """The bytes of a PNG file of an image (h, w, 3), uint8."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "png", compress_level=1)
    return file.getvalue()
