import pytest

from tfx_transformer.train.folder import load_run
from tfx_transformer.train.text_pictures import draw_text


@pytest.mark.parametrize("name", ["language_run", "mask_run", "classify_text_run"])
def test_the_heads_and_the_curves_are_drawn(name, request, tmp_path):
    run = load_run(request.getfixturevalue(name)[0])
    paths = draw_text(run, "red dog " * 5, tmp_path, format="svg")
    assert [path.name for path in paths] == ["curves.svg", "heads.svg"]
    drawing = paths[1].read_text()
    assert "block 1 of 1" in drawing
    assert ("dog, " in drawing) == (name == "classify_text_run")


def test_what_cannot_be_drawn_is_named(language_run, tmp_path):
    run = load_run(language_run[0])
    with pytest.raises(ValueError, match="text must hold a word"):
        draw_text(run, " ", tmp_path)
    with pytest.raises(ValueError, match="layer must be one of the 1 blocks; got layer=1"):
        draw_text(run, "red", tmp_path, layer=1)
