import dataclasses
import re

import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train.run_folder import load_run

NAMES = ["curves", "heads", "rollout", "distances", "positions"]


@pytest.fixture(scope="module")
def loaded(classify_run):
    return load_run(classify_run[0])


def test_all_pictures_are_drawn(loaded, pictures, tmp_path):
    paths = loaded.task.plot(loaded, str(pictures / "red/3.jpg"), tmp_path, format="svg")
    assert [path.stem for path in paths] == NAMES
    assert all(path.stat().st_size > 3000 and path.suffix == ".svg" for path in paths)
    assert "Learning curves of a classifier (ViT)" in paths[0].read_text()
    heads, rollout = (path.read_text() for path in paths[1:3])
    assert "block 1 of 1" in heads and "head 1" in heads and "head 0" not in heads
    assert re.search(r"Predicted: (red|green|blue) \(\d+%\)", rollout)


@pytest.mark.parametrize("patch_size, has_filters", [(4, False), (8, True)])
def test_filters_of_at_least_five_pixels_are_plotted(
    loaded, pictures, tmp_path, patch_size, has_filters
):
    options = {"num_classes": 3, "image_size": 16, "patch_size": patch_size}
    other = dataclasses.replace(loaded, model=create_model("vit", "test", **options))
    paths = other.task.plot(other, str(pictures / "red/3.jpg"), tmp_path)
    assert [path.stem for path in paths] == NAMES + ["filters"] * has_filters


def test_a_wrong_file_or_layer_is_named(loaded, pictures, tmp_path):
    (tmp_path / "junk.png").write_bytes(b"junk")
    with pytest.raises(ValueError, match="junk.png is not an image that can be read"):
        loaded.task.plot(loaded, str(tmp_path / "junk.png"))
    with pytest.raises(ValueError, match="layer must be 1, or -1 for the last .*; got layer=2"):
        loaded.task.plot(loaded, str(pictures / "red/3.jpg"), layer=2)


@pytest.mark.parametrize(
    "name, options, drawn",
    [
        ("swin", {}, ["curves", "heads"]),
        ("pixel_transformer", {}, ["curves", "heads"]),
        ("attention_cnn", {}, ["curves", "heads"]),
        ("attention_cnn", {"mix": "local", "global_attention": False}, ["curves"]),
        ("mlp_mixer", {}, ["curves"]),
    ],
)
def test_other_models_show_what_they_have(loaded, pictures, tmp_path, name, options, drawn):
    model = create_model(name, "test", num_classes=3, **options)
    other = dataclasses.replace(loaded, model=model)
    paths = other.task.plot(other, str(pictures / "red/3.jpg"), tmp_path)
    assert [path.stem for path in paths] == drawn
