import pytest

from tfx_transformer.train.folder import load_run
from tfx_transformer.train.image_pictures import draw_image

NAMES = ["rollout", "heads", "distances", "positions", "filters", "curves"]


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
    with pytest.raises(ValueError, match="layer must be one of the 1 blocks; got layer=1"):
        draw_image(loaded, b"", layer=1)
