import dataclasses

import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train import caption_pictures
from tfx_transformer.train.caption_pictures import by_word, draw_caption
from tfx_transformer.train.folder import load_run


@pytest.fixture(scope="module")
def loaded(caption_run):
    return load_run(caption_run[0])


def test_the_regions_behind_each_word_and_the_curves_are_drawn(
    loaded, pictures, tmp_path, monkeypatch
):
    drawn, draw = [], caption_pictures.plot_regions
    monkeypatch.setattr(
        caption_pictures, "plot_regions", lambda *own: drawn.append(own) or draw(*own)
    )
    paths = draw_caption(loaded, (pictures / "red/3.jpg").read_bytes(), tmp_path, format="svg")
    assert [path.name for path in paths] == ["curves.svg", "regions.svg"]
    assert all(path.stat().st_size > 3000 and path.parent == tmp_path for path in paths)
    ((image, weights, pieces, _, title),) = drawn
    assert "red" in title.split()
    assert " ".join(pieces) == title  # whole words, without the token of the end
    assert weights.shape == (len(pieces), 4, 4)
    np.testing.assert_allclose(weights.sum(axis=(1, 2)), 1, atol=1e-5)
    red, green, blue = image.mean(axis=(0, 1))
    assert image.shape == (32, 32, 3) and 0.5 < red < 1 and max(green, blue) < 0.5


def test_a_word_has_the_mean_of_what_its_pieces_read():
    weights = np.arange(5 * 6.0).reshape(5, 2, 3)
    words, seen = by_word(["▁a", "▁snow", "board", "er"], weights)  # the fifth is of the end
    assert words == ["a", "snowboarder"]
    np.testing.assert_array_equal(seen, [weights[0], (weights[1] + weights[2] + weights[3]) / 3])


def test_a_model_that_looks_but_once_has_curves_alone(loaded, pictures, tmp_path):
    size = loaded.tokenizer.vocab_size
    model = create_model("show_attend_tell", "tiny", vocab_size=size, attention=None)
    model.build({"image": (None, 32, 32, 3), "target": (None, None)})
    other = dataclasses.replace(loaded, model=model)
    paths = draw_caption(other, (pictures / "red/3.jpg").read_bytes(), tmp_path)
    assert [path.name for path in paths] == ["curves.png"]


def test_what_cannot_be_drawn_is_named(loaded):
    with pytest.raises(ValueError, match="the picture cannot be read: 4 bytes b'junk'"):
        draw_caption(loaded, b"junk")
