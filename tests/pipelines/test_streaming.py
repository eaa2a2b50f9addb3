"""Token by token gives the text of the generator, also beyond the model's positions."""

import numpy as np
import pytest

from tfx_transformer.data import PAD, START
from tfx_transformer.data.text.language import language_tokenizer
from tfx_transformer.pipelines import Generator
from tfx_transformer.pipelines.streaming import TextStream


@pytest.fixture(scope="module")
def greedy(language_model):
    return TextStream(*language_model, "greedy")


@pytest.mark.parametrize("prompt", ["the old", "", "여우"])
def test_the_parts_are_the_text_of_the_generator(language_model, greedy, prompt):
    parts = list(greedy(prompt, 8))
    assert "".join(parts) == Generator(*language_model, "greedy", 8)([prompt])[0]
    assert len(parts) > 5


def test_after_the_last_position_the_second_half_is_the_new_context(language_model, greedy):
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


def test_the_prompt_is_read_in_one_pass(language_model, monkeypatch):
    model, tokenizer = language_model
    prompt, shapes, step = tokenizer.encode_list(["the old"])[0], [], type(model).step
    monkeypatch.setattr(
        type(model), "step", lambda *args: shapes.append(tuple(args[1].shape)) or step(*args)
    )
    list(TextStream(model, tokenizer, "greedy").tokens(prompt, 3))
    assert shapes == [(1, len(prompt)), (1,)]  # START and all but the last; then a traced step


def test_a_long_prompt_is_truncated_on_the_left(language_model, greedy):
    ids = language_model[1].encode_list(["the old man and the sea, a dog"])[0]
    assert list(greedy.tokens(ids, 5)) == list(greedy.tokens(ids[-19:], 5))


def test_it_says_whether_a_prompt_is_too_long(greedy):
    assert not greedy.truncates("a" * 19) and greedy.truncates("a" * 20)  # START has a position
    assert list(greedy("the \ud800old", 3)) == list(greedy("the old", 3))  # a lone surrogate


def test_the_same_seed_samples_the_same_text(language_model):
    options = {"kind": "sample", "temperature": 3.0, "top_k": 9, "top_p": 0.95}
    texts = [
        [
            "".join(TextStream(*language_model, options | {"seed": seed})("the", 30))
            for _ in range(2)
        ]
        for seed in (1, 2)
    ]
    assert texts[0][0] == texts[0][1] != texts[1][0]


def test_a_character_of_several_bytes_is_not_split(language_model, monkeypatch):
    tokenizer = language_tokenizer("abc " * 9, byte_fallback=True)
    ids = tokenizer.encode_list(["a우!"])[0]
    assert len(ids) == 5  # "우" is three bytes
    stream = TextStream(language_model[0], tokenizer)
    monkeypatch.setattr(stream, "tokens", lambda prompt, length: iter(ids[:length]))
    assert list(stream("c", 99)) == ["a", "우", "!"]
    assert "".join(stream("c", 2)) == "a"


def test_beam_search_is_refused(language_model):
    with pytest.raises(
        ValueError, match="decoder must be greedy or sample to decode token by token"
    ):
        TextStream(*language_model, "beam")
