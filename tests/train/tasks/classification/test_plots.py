import dataclasses

import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train.run_folder import load_run

NAMES = ["curves", "heads", "rollout", "distances", "positions", "filters"]


@pytest.fixture(scope="module")
def loaded(classify_run):
    return load_run(classify_run[0])


def test_all_pictures_are_drawn(loaded, pictures, tmp_path):
    paths = loaded.task.plot(loaded, str(pictures / "red/3.jpg"), tmp_path, format="svg")
    assert [path.stem for path in paths] == NAMES
    assert all(path.stat().st_size > 3000 and path.suffix == ".svg" for path in paths)


def test_a_wrong_file_or_layer_is_named(loaded, pictures, tmp_path):
    (tmp_path / "junk.png").write_bytes(b"junk")
    with pytest.raises(ValueError, match="junk.png is not an image that can be read"):
        loaded.task.plot(loaded, str(tmp_path / "junk.png"))
    with pytest.raises(ValueError, match="layer must be one of the 1 with attention; got layer=1"):
        loaded.task.plot(loaded, str(pictures / "red/3.jpg"), layer=1)


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
