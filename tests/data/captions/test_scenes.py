"""Scenes: captions and pictures that a program draws."""

import io

import numpy as np
import pytest
from PIL import Image

from tfx_transformer.data import load_captions
from tfx_transformer.data.captions import scenes
from tfx_transformer.data.captions.scenes import SceneObject, make_scenes, parse_caption


@pytest.fixture(scope="module")
def training():
    return make_scenes("train", 600)


@pytest.fixture(scope="module")
def test_set():
    return make_scenes("test")


def kinds(caption):
    return frozenset(x.kind for x in parse_caption(caption).objects)


def test_pictures_are_the_same_at_every_call(training):
    texts, images = make_scenes("train", 40)
    assert images.shape == (40, 32, 32, 3) and images.dtype == np.uint8
    again = make_scenes("train", 40)
    assert texts == again[0] and (images == again[1]).all()
    assert make_scenes("validation", 40)[0] != texts


def test_the_500_test_captions_differ_and_name_every_attribute(test_set):
    texts, images = test_set
    assert len(texts) == len(images) == len(set(texts)) == 500
    for text in texts:
        scene = parse_caption(text)
        assert len(scene.objects) == 2 and all(x.size for x in scene.objects)


def test_held_out_pairs_of_colored_shapes_are_in_no_other_split(training, test_set):
    splits = [training[0], make_scenes("validation")[0], test_set[0]]
    pairs = [{kinds(text) for text in texts if " of " in text or "ve" in text} for texts in splits]
    pairs[0] = {pair for pair in pairs[0] if len(pair) == 2}
    assert not pairs[0] & pairs[2] and not pairs[1] & pairs[2] and not pairs[0] & pairs[1]
    trained = frozenset().union(*pairs[0])
    assert len(trained) == 18 and len(pairs[2]) > 15  # each alone is known


def test_training_captions_sometimes_lack_sizes_or_a_second_object(training):
    parsed = [parse_caption(text) for text in training[0]]
    single = np.mean([len(scene.objects) == 1 for scene in parsed])
    unsized = np.mean([x.size is None for scene in parsed for x in scene.objects])
    assert 0.1 < single < 0.2 and 0.2 < unsized < 0.3
    assert {scene.relation for scene in parsed} == {None, *scenes.RELATIONS}


def test_objects_have_their_colors_and_places():
    scene = parse_caption("a large blue square left of a small red circle")
    image = scenes.draw_scene(scene, np.random.default_rng(3)).astype(int)
    blue = (image == scenes.COLORS["blue"]).all(axis=-1)
    red = (image == scenes.COLORS["red"]).all(axis=-1)
    assert blue.sum() == 144 and 35 < red.sum() < 55
    assert np.nonzero(blue)[1].max() + scenes.GAP < np.nonzero(red)[1].min()
    background = (image == scenes.BACKGROUND).all(axis=-1)
    assert background.sum() >= 1024 - 144 - 64


@pytest.mark.parametrize("relation", scenes.RELATIONS)
def test_placed_objects_fit_and_do_not_touch(relation):
    rng, direction = np.random.default_rng(1), scenes.RELATIONS[relation]
    for sides in ([12, 12], [8, 12], [12, 8], [8, 8]):
        for _ in range(30):
            corners = np.array(scenes.place_objects(sides, relation, rng))
            assert not (corners % scenes.GRID).any()
            assert corners.min() >= 0 and (corners + np.array(sides)[:, None]).max() <= 32
            centers = corners + np.array(sides)[:, None] / 2
            offset = centers[0] - centers[1]
            along = int(direction[0] == 0)
            assert np.sign(offset[along]) == direction[along]
            assert abs(offset[along]) >= sum(sides) / 2 + scenes.GAP
            assert abs(offset[1 - along]) <= scenes.SLOPE * abs(offset[along])


def test_captions_are_read_as_they_are_written():
    for text in ("a small red circle above a large blue square", "a cyan triangle"):
        assert str(parse_caption(text)) == text
    first, second = parse_caption("A green  square right of a purple circle").objects
    assert first == SceneObject(None, "green", "square") and second.kind == "purple circle"


@pytest.mark.parametrize("text", ["", "a red", "a red circle under a blue square", "two circles"])
def test_other_captions_are_refused(text):
    with pytest.raises(ValueError, match="the caption must be like .*; got"):
        parse_caption(text)


def test_they_are_a_source_of_captions(training):
    captions = load_captions("embedded:scenes/40")
    assert len(captions) == 40 and captions.name == "embedded:scenes/40 (train)"
    assert captions.texts == [[text] for text in make_scenes("train", 40)[0]]
    image = np.array(Image.open(io.BytesIO(captions.items[7])))
    assert (image == make_scenes("train", 40)[1][7]).all()
    assert len(load_captions("embedded:scenes/40", split="test")) == 40


@pytest.mark.parametrize("spec", ["embedded:scene", "embedded:scenes/many"])
def test_an_unknown_embedded_source_is_named(spec):
    with pytest.raises(ValueError, match=f"unknown source '{spec}'; known: .*embedded:scenes"):
        load_captions(spec)


def test_scenes_have_their_captions():
    with pytest.raises(ValueError, match="embedded:scenes has its captions and splits; got"):
        load_captions("embedded:scenes", "captions.txt")
