"""The program that checks pictures of scenes, on pictures that are right, wrong and damaged."""

import numpy as np
import pytest

from tfx_transformer.data.captions.scene_check import (
    check_scene,
    connected_parts,
    find_objects,
    find_shape,
    judge_scene,
)
from tfx_transformer.data.captions.scenes import (
    BACKGROUND,
    COLORS,
    PIXELS,
    RELATIONS,
    SHAPES,
    SIZES,
    draw_scene,
    make_scenes,
    parse_caption,
    shape_mask,
)

TEXT = "a small red circle above a large blue square"


@pytest.fixture
def image():
    return draw_scene(parse_caption(TEXT), np.random.default_rng(0))


@pytest.fixture(scope="module")
def pictures():
    """Captions and pictures of training and test, with one object and two."""
    parts = [make_scenes(split, 150) for split in ("train", "test")]
    return sum((texts for texts, _ in parts), []), np.concatenate([x for _, x in parts])


def test_drawn_pictures_are_right(pictures):
    texts, images = pictures
    right = [check_scene(image, text) for image, text in zip(images, texts, strict=True)]
    assert np.mean(right) >= 0.99


def test_blurred_and_noisy_pictures_are_still_right(pictures):
    """As those of a decoder: a mean with the neighbors, and noise of 12 levels."""
    texts, images = pictures
    rng = np.random.default_rng(0)
    padded = np.pad(images.astype("float32"), [(0, 0), (1, 1), (1, 1), (0, 0)], mode="edge")
    cross = padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]
    soft = 0.6 * padded[:, 1:-1, 1:-1] + 0.1 * cross + rng.normal(0, 12, images.shape)
    soft = np.clip(soft, 0, 255).astype("uint8")
    right = [check_scene(*pair) for pair in zip(soft, texts, strict=True)]
    assert np.mean(right) >= 0.95


def same_scene(text, other):
    """Whether captions mean the same, such as "x above y" and "y below x"; sizes are given."""
    opposite = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
    one, two = parse_caption(text), parse_caption(other)
    swapped = two.objects[::-1], opposite.get(two.relation)
    return (one.objects, one.relation) in ((two.objects, two.relation), swapped)


def test_pictures_of_other_captions_are_refused():
    texts, images = make_scenes("test", 250)
    for step in (1, 7):
        others = texts[step:] + texts[:step]
        for image, text, other in zip(images, texts, others, strict=True):
            assert check_scene(image, other) == same_scene(text, other), (text, other)


@pytest.mark.parametrize(
    "attribute, other",
    [
        ("shape", "a small red triangle above a large blue square"),
        ("color", "a small red circle above a large purple square"),
        ("size", "a large red circle above a large blue square"),
        ("relation", "a small red circle left of a large blue square"),
        ("relation", "a small red circle below a large blue square"),
    ],
)
def test_one_wrong_attribute_is_told(image, attribute, other):
    assert all(judge_scene(image, TEXT).values())
    judged = judge_scene(image, other)
    assert [name for name, is_right in judged.items() if not is_right] == [attribute]


def test_one_attribute_may_be_at_the_wrong_object(image):
    judged = judge_scene(image, "a small blue circle above a large red square")
    assert [name for name, is_right in judged.items() if not is_right] == ["color"]


def test_a_size_that_is_not_named_may_be_any(image):
    assert check_scene(image, "a red circle above a blue square")
    assert check_scene(image, "a blue square below a small red circle")


def test_a_wrong_number_of_objects_is_wrong_in_all(image):
    assert not any(judge_scene(image, "a small red circle").values())
    image[:8, 24:] = COLORS["green"]
    assert not any(judge_scene(image, TEXT).values())
    assert not any(judge_scene(np.full((32, 32, 3), BACKGROUND, "uint8"), "a red circle").values())


def test_specks_are_no_objects(image):
    left = np.nonzero((image == BACKGROUND).all(axis=(0, 2)))[0]
    image[:2, left[0] : left[0] + 2] = COLORS["green"]
    assert check_scene(image, TEXT)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_is_recognized_in_each_size(shape, size):
    for side in SIZES[size]:
        assert find_shape(shape_mask(shape, side, side) >= 0.5) == shape


def test_other_shapes_are_unknown():
    assert find_shape(np.ones((5, 12), bool)) == ""
    ring = np.ones((12, 12), bool)
    ring[2:10, 2:10] = False
    assert find_shape(ring) == ""


def test_connected_parts_are_those_of_a_flood():
    rng = np.random.default_rng(2)
    mask = rng.random((14, 11)) < 0.55
    seen, sizes = np.zeros_like(mask), []
    for start in zip(*np.nonzero(mask), strict=True):
        queue, count = [start], 0
        while queue:
            y, x = queue.pop()
            if not (0 <= y < 14 and 0 <= x < 11) or seen[y, x] or not mask[y, x]:
                continue
            seen[y, x], count = True, count + 1
            queue += [(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)]
        sizes += [count] if count >= 6 else []
    assert sorted(part.sum() for part in connected_parts(mask)) == sorted(sizes) and sizes


def test_objects_are_found_with_their_centers(image):
    found = {x.shape: x for x in find_objects(image)}
    circle, square = found["circle"], found["square"]
    assert (circle.size, circle.color, square.size, square.color) == (
        *("small", "red"),
        *("large", "blue"),
    )
    assert circle.center[1] < square.center[1] and max(square.center) <= PIXELS
    assert set(RELATIONS) == {"left of", "right of", "above", "below"}
