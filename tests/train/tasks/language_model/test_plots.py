import pytest

from tfx_transformer.train.run_folder import load_run


@pytest.mark.parametrize("name", ["language_run", "mask_run", "classify_text_run"])
def test_the_heads_and_the_curves_are_plotted(name, request, tmp_path):
    run = load_run(request.getfixturevalue(name)[0])
    paths = run.task.plot(run, "red dog " * 5, to=tmp_path, format="svg")
    assert [path.name for path in paths] == ["curves.svg", "heads.svg"]
    drawing = paths[1].read_text()
    assert "Which tokens each token attends to, block 1 of 1" in drawing
    assert "(start)" in drawing and "▁" not in drawing and "s&gt;" not in drawing
    assert ("Predicted: " in drawing) == (name == "classify_text_run")


def test_a_wrong_text_or_layer_is_named(language_run, tmp_path):
    run = load_run(language_run[0])
    with pytest.raises(ValueError, match="the text must contain a word; got ' '"):
        run.task.plot(run, " ", to=tmp_path)
    with pytest.raises(ValueError, match="layer must be 1, or -1 for the last block; got layer=0"):
        run.task.plot(run, "red", to=tmp_path, layer=0)
