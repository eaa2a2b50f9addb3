import dataclasses

import numpy as np
import pytest

from tfx_transformer.models import create_model
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.captioning import plots
from tfx_transformer.train.tasks.captioning.plots import by_word


@pytest.fixture(scope="module")
def loaded(caption_run):
    return load_run(caption_run[0])


def test_the_regions_behind_each_word_and_the_curves_are_drawn(
    loaded, pictures, tmp_path, monkeypatch
):
    drawn, draw = [], plots.plot_regions
    monkeypatch.setattr(plots, "plot_regions", lambda *own: drawn.append(own) or draw(*own))
    paths = loaded.task.plot(loaded, str(pictures / "red/3.jpg"), tmp_path, format="svg")
    assert [path.name for path in paths] == ["curves.svg", "regions.svg"]
    assert all(path.stat().st_size > 3000 and path.parent == tmp_path for path in paths)
    ((image, weights, pieces, _, title),) = drawn
    assert "red" in pieces  # whole words, without the token of the end
    assert title == f"Where each word attends: “{' '.join(pieces)}”"
    assert weights.shape == (len(pieces), 4, 4)
    np.testing.assert_allclose(weights.sum(axis=(1, 2)), 1, atol=1e-5)
    red, green, blue = image.mean(axis=(0, 1))
    assert image.shape == (32, 32, 3) and 0.5 < red < 1 and max(green, blue) < 0.5


def test_a_word_has_the_mean_of_what_its_pieces_read():
    weights = np.arange(5 * 6.0).reshape(5, 2, 3)
    words, seen = by_word(["▁a", "▁snow", "board", "er"], weights)  # the fifth is of the end
    assert words == ["a", "snowboarder"]
    np.testing.assert_array_equal(seen, [weights[0], (weights[1] + weights[2] + weights[3]) / 3])


def test_a_model_without_attention_has_curves_alone(loaded, pictures, tmp_path):
    size = loaded.task.tokenizer.vocab_size
    model = create_model("show_attend_tell", "test", vocab_size=size, attention=None)
    other = dataclasses.replace(loaded, model=model)
    paths = other.task.plot(other, str(pictures / "red/3.jpg"), tmp_path)
    assert [path.name for path in paths] == ["curves.png"]


def test_a_file_that_is_not_an_image_is_named(loaded, tmp_path):
    (tmp_path / "junk.png").write_bytes(b"junk")
    with pytest.raises(ValueError, match="junk.png is not an image that can be read"):
        loaded.task.plot(loaded, str(tmp_path / "junk.png"))
