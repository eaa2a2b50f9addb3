import dataclasses

import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train.folder import load_run
from tfx_transformer.train.image_pictures import draw_image

NAMES = ["curves", "heads", "rollout", "distances", "positions", "filters"]


@pytest.fixture(scope="module")
def loaded(classify_run):
    return load_run(classify_run[0])


def test_all_pictures_are_drawn(loaded, pictures, tmp_path):
    paths = draw_image(loaded, (pictures / "red/3.jpg").read_bytes(), tmp_path, format="svg")
    assert [path.stem for path in paths] == NAMES
    assert all(path.stat().st_size > 3000 and path.suffix == ".svg" for path in paths)


def test_what_cannot_be_drawn_is_named(loaded, pictures):
    with pytest.raises(ValueError, match="the picture cannot be read: 4 bytes b'junk'"):
        draw_image(loaded, b"junk")
    with pytest.raises(ValueError, match="layer must be one of the 1 that attend; got layer=1"):
        draw_image(loaded, (pictures / "red/3.jpg").read_bytes(), layer=1)


@pytest.mark.parametrize(
    "name, options, drawn",
    [
        ("swin", {}, ["curves", "heads"]),
        ("pixel_transformer", {}, ["curves", "heads"]),
        ("attention_cnn", {}, ["curves", "heads"]),
        ("attention_cnn", {"mix": "local", "between": False}, ["curves"]),
        ("mlp_mixer", {}, ["curves"]),
    ],
)
def test_other_models_show_what_they_have(loaded, pictures, tmp_path, name, options, drawn):
    model = create_model(name, "tiny", num_classes=3, **options)
    model.build((None, model.image_size, model.image_size, 3))
    other = dataclasses.replace(loaded, model=model)
    paths = draw_image(other, (pictures / "red/3.jpg").read_bytes(), tmp_path)
    assert [path.stem for path in paths] == drawn
