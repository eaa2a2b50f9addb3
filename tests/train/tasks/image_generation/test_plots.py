import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import START
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.image_generation import plots

TEXT = "a large red circle"


@pytest.fixture(scope="module")
def loaded(draw_run):
    return load_run(draw_run[0])


def test_a_sheet_and_the_attention_to_each_word_are_drawn(loaded, tmp_path, monkeypatch):
    drawn, draw = [], plots.plot_regions
    monkeypatch.setattr(plots, "plot_regions", lambda *own: drawn.append(own) or draw(*own))
    paths = loaded.task.plot(loaded, TEXT, tmp_path, format="svg")
    assert [path.name for path in paths] == ["curves.svg", "sheet.svg", "words.svg"]
    assert all(path.stat().st_size > 3000 for path in paths)
    ((image, maps, words, _, title),) = drawn
    assert image.shape == (32, 32, 3) and maps.shape == (4, 4, 4)
    assert words == ["▁a", "▁large", "▁red", "▁circle"]
    assert title == f"Which image tokens attend to each word, block 2: “{TEXT}”"


def test_the_attention_to_a_word_is_that_with_which_a_token_is_chosen(loaded):
    drawer = loaded.pipeline(kind="greedy")
    tokens = drawer.sample(tf.constant([TEXT]))[0][:, 0]
    words, maps = plots.word_attention(loaded.model, drawer.tokenizer, TEXT, tokens, 0)
    rows = np.array([[START, *tokens.numpy()[0, :-1]]])
    weights = np.array(loaded.model.attention_maps(rows)["block_0/self"])[0]  # (H, L, L)
    text = loaded.model.text_length
    for word in range(len(words)):
        for cell in (0, 5, 15):  # its token is chosen at the position before it
            expected = weights[:, text + cell, 1 + word].mean()
            assert maps[word].ravel()[cell] == pytest.approx(expected, abs=1e-6)


def test_an_empty_text_and_a_block_that_does_not_exist_are_refused(loaded, tmp_path):
    with pytest.raises(ValueError, match="the text must contain a word"):
        loaded.task.plot(loaded, " ", tmp_path)
    with pytest.raises(ValueError, match="layer must be 1 to 2, or -1 for the last block"):
        loaded.task.plot(loaded, TEXT, tmp_path, layer=3)
