import pytest

from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.translation.plots import find_word

PIECES = ["▁the", "▁ani", "mal", "▁it", "▁was", "</s>"]


@pytest.mark.parametrize("format", ["png", "svg"])
def test_all_pictures_are_drawn(run, tmp_path, format):
    loaded = load_run(run[0])
    paths = loaded.task.plot(loaded, "red old dog", tmp_path, format=format)
    assert [path.stem for path in paths] == [
        *("curves", "alignment", "encoder_heads", "decoder_heads", "cross_heads"),
        *("word", "mask", "positions"),
    ]
    assert all(path.suffix == f".{format}" and path.stat().st_size > 3000 for path in paths)
    if format == "svg":
        texts = {path.stem: path.read_text() for path in paths}  # each text is also a comment
        assert "Which source words" in texts["alignment"]
        assert "block 1" in texts["cross_heads"] and "head 1" in texts["cross_heads"]
        for text in texts.values():
            assert "▁" not in text and "s&gt;" not in text and "</s>" not in text


def test_a_word_is_found_where_it_begins():
    assert find_word("it", PIECES) == 3
    assert find_word("animal", PIECES) == 1
    assert find_word(None, PIECES) == 0  # the first of the longest
    with pytest.raises(ValueError, match="which begin: the, ani, it, was; got word='street'"):
        find_word("street", PIECES)


def test_what_cannot_be_drawn_is_named(run):
    loaded = load_run(run[0])
    with pytest.raises(ValueError, match="the text must contain a word"):
        loaded.task.plot(loaded, "  ")
    with pytest.raises(ValueError, match="layer must be 1, or -1 for the last block; got layer=2"):
        loaded.task.plot(loaded, "red dog", layer=2)
