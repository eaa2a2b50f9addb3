"""Prompts in, continuations out, with an untrained model."""

import numpy as np
import pytest
import tensorflow as tf

import tfx_transformer.decoding.decoder as decoder_module
from tfx_transformer.data import END, PAD, START
from tfx_transformer.pipelines import Generator
from tfx_transformer.pipelines.generator import remove_prefix

PROMPTS = ["the old", "", "a dog", "여우 and\n the"]
SAMPLE = {"kind": "sample", "temperature": 3.0}


def greedy_tokens(model, tokenizer, prompt, count):
    """Greedy decoding with the whole model, without a cache."""
    row = [START, *tokenizer.encode_list([prompt])[0]]
    begin = len(row)
    for _ in range(count):
        logits = np.array(model(np.array([row])))[0, -1]
        logits[[PAD, START]] = -np.inf
        row.append(int(np.argmax(logits)))
        if row[-1] == END:
            break
    return row[begin:]


def test_prompts_of_any_length_are_continued_as_by_the_whole_model(language_model, generator):
    model, tokenizer = language_model
    outputs = generator.predict(tf.constant(PROMPTS))
    for i, prompt in enumerate(PROMPTS):
        expected = greedy_tokens(model, tokenizer, prompt, 8)
        row = outputs["tokens"][i].numpy()
        assert row[: len(expected)].tolist() == expected and not row[len(expected) :].any()
        whole = tokenizer.encode_list([prompt])[0] + expected
        assert prompt + outputs["text"][i].numpy().decode() == tokenizer.decode_list([whole])[0]
    assert generator(PROMPTS) == [generator(prompt) for prompt in PROMPTS]


def test_the_shared_length_of_all_prompts_is_read_in_one_pass(language_model, monkeypatch):
    seen = []
    read = decoder_module.read_tokens

    def spy(step, state, tokens, count):
        tf.py_function(lambda n: seen.append(int(n)), [count], [])
        return read(step, state, tokens, count)

    monkeypatch.setattr(decoder_module, "read_tokens", spy)
    model, tokenizer = language_model
    generator = Generator(model, tokenizer, "greedy", 8)
    for prompts in (["the old", "a dog"], ["the old", ""], ["the old man"]):
        generator.predict(tf.constant(prompts))
        assert seen.pop() == min(len(ids) for ids in tokenizer.encode_list(prompts))


def test_a_space_after_the_prompt_is_kept(language_model, generator):
    model, tokenizer = language_model
    space = tokenizer.encode_list([" "])[0][0]
    tokens = tf.constant([[space, 9, space]])
    assert tokenizer.decode(remove_prefix(tokens, tf.constant([0]))).numpy()[0].startswith(b" ")
    assert remove_prefix(tokens, tf.constant([1])).numpy().tolist() == [[9, space, PAD]]


def test_the_score_is_the_log_probability_of_prompt_and_continuation(language_model, generator):
    model, tokenizer = language_model
    row = tokenizer.encode_list(["a dog"])[0] + greedy_tokens(model, tokenizer, "a dog", 8)
    logits = np.asarray(model(np.array([[START, *row[:-1]]])), "float64")[0]
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = log_probs[np.arange(len(row)), row].sum()
    assert float(generator.predict(["a dog"])["score"][0]) == pytest.approx(expected, rel=1e-4)


def test_a_long_prompt_is_truncated_on_the_left(language_model, generator):
    model, tokenizer = language_model
    long = "the old man and the sea, a dog"
    outputs = generator.predict(tf.constant([long, "a"]))
    assert outputs["prompt"].numpy()[0].decode() == long[-12:]  # of 20 positions 8 are reserved
    assert outputs["text"].numpy()[0].decode() == generator(long[-12:])


def test_a_smaller_length_is_a_shorter_text(generator):
    whole = generator.predict(tf.constant(PROMPTS))["tokens"].numpy()
    for length, kept in ((3, 3), (99, 8), (0, 1)):
        outputs = generator.predict_limited(tf.constant(PROMPTS), tf.constant(length))
        np.testing.assert_array_equal(outputs["tokens"], whole[:, :kept])


def test_sampling_differs_from_call_to_call_unless_it_has_a_seed(language_model):
    options = SAMPLE | {"seed": 5, "n_best": 3, "top_k": 9, "top_p": 0.95}
    seeded = Generator(*language_model, options, 8)
    first, second = (seeded.predict(tf.constant(PROMPTS))["n_best"].numpy() for _ in range(2))
    assert first.tolist() == second.tolist()
    assert len(first[0]) == 3 and len({text for row in first for text in row}) > 6
    unseeded = Generator(*language_model, SAMPLE, 8)
    assert len({unseeded("the old") for _ in range(4)}) > 2


def test_beam_search_gives_a_higher_score_than_greedy_decoding(language_model, generator):
    beam = Generator(*language_model, {"kind": "beam", "n_best": 2, "length_penalty": 0.0}, 8)
    outputs = beam.predict(tf.constant(PROMPTS))
    scores = outputs["n_best_score"].numpy()
    assert scores.shape == (4, 2) and (scores[:, 0] >= scores[:, 1]).all()
    greedy = generator.predict(tf.constant(PROMPTS))["score"].numpy()
    assert (scores[:, 0] >= greedy - 1e-4).all()
    best, other = outputs["n_best"].numpy().T.tolist()
    assert best == outputs["text"].numpy().tolist()
    assert all(one != two for one, two in zip(best, other, strict=True))


def test_lengths_must_fit_the_model(language_model):
    assert Generator(*language_model).max_length == 10
    with pytest.raises(ValueError, match="max_length must be less than the model's 20 positions"):
        Generator(*language_model, max_length=20)
    with pytest.raises(ValueError, match="max_length must be a whole number above zero"):
        Generator(*language_model, max_length=0)
