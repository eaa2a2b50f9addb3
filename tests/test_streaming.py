"""Token by token is the same as all at once, and goes on where the positions end."""

import numpy as np
import pytest

from tfx_transformer.data import PAD, START
from tfx_transformer.data.language import language_tokenizer
from tfx_transformer.generator import Generator
from tfx_transformer.streaming import Stream


@pytest.fixture(scope="module")
def greedy(language_model):
    return Stream(*language_model, "greedy")


@pytest.mark.parametrize("prompt", ["the old", "", "여우"])
def test_the_parts_are_the_text_of_the_generator(language_model, greedy, prompt):
    parts = list(greedy(prompt, 8))
    assert "".join(parts) == Generator(*language_model, "greedy", 8)([prompt])[0]
    assert len(parts) > 5  # as they come


def test_where_the_positions_end_the_latter_half_moves_to_the_front(language_model, greedy):
    model, tokenizer = language_model
    prompt = tokenizer.encode_list(["the old"])[0]
    row, expected = [START, *prompt], []
    for _ in range(60):
        if len(row) > model.max_length:
            row = [START, *row[-(model.max_length // 2) :]]
        logits = np.array(model(np.array([row])))[0, -1]
        logits[[PAD, START]] = -np.inf
        expected.append(int(np.argmax(logits)))
        row.append(expected[-1])
    assert list(greedy.tokens(prompt, 60)) == expected


def test_of_a_prompt_that_is_too_long_the_end_counts(language_model, greedy):
    ids = language_model[1].encode_list(["the old man and the sea, a dog"])[0]
    assert list(greedy.tokens(ids, 5)) == list(greedy.tokens(ids[-19:], 5))


def test_the_same_seed_draws_the_same(language_model):
    draw = {"kind": "sample", "temperature": 3.0, "top_k": 9, "top_p": 0.95}
    texts = [
        ["".join(Stream(*language_model, draw | {"seed": seed})("the", 30)) for _ in range(2)]
        for seed in (1, 2)
    ]
    assert texts[0][0] == texts[0][1] != texts[1][0]


def test_a_character_of_several_bytes_comes_whole(language_model, monkeypatch):
    tokenizer = language_tokenizer("abc " * 9, byte_fallback=True)
    ids = tokenizer.encode_list(["a우!"])[0]
    assert len(ids) == 5  # one byte of "!", three of the other
    stream = Stream(language_model[0], tokenizer)
    monkeypatch.setattr(stream, "tokens", lambda prompt, length: iter(ids[:length]))
    assert list(stream("c", 99)) == ["a", "우", "!"]
    assert "".join(stream("c", 2)) == "a\ufffd"  # cut off inside of it


def test_a_beam_cannot_tell_its_first_word_early(language_model):
    with pytest.raises(ValueError, match="only greedy and sample write one token at a time"):
        Stream(*language_model, "beam")
