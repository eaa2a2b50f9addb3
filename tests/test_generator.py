"""The beginning of a text in, its rest out, by an untrained model: nonsense, but the right one."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data import END, PAD, START
from tfx_transformer.export import export_generator, inspect_export, load_classifier, load_generator
from tfx_transformer.generator import Generator, behind

PROMPTS = ["the old", "", "a dog", "여우 and\n the"]
DRAW = {"kind": "sample", "temperature": 3.0, "seed": 5}


@pytest.fixture(scope="module")
def greedy(language_model):
    return Generator(*language_model, "greedy", 8)


@pytest.fixture(scope="module")
def drawing(language_model):
    return Generator(*language_model, DRAW | {"num_samples": 3, "top_k": 9, "top_p": 0.95}, 8)


def continue_plainly(model, tokenizer, prompt, count, choose=np.argmax):
    """One token after the other by the whole model, without a cache."""
    row = [START, *tokenizer.encode_list([prompt])[0]]
    begin = len(row)
    for _ in range(count):
        logits = np.array(model(np.array([row])))[0, -1]
        logits[[PAD, START]] = -np.inf
        row.append(int(choose(logits)))
        if row[-1] == END:
            break
    return row[begin:]


def test_prompts_of_all_lengths_go_on_as_each_alone_by_the_whole_model(language_model, greedy):
    model, tokenizer = language_model
    found = greedy.generate(tf.constant(PROMPTS))
    for i, prompt in enumerate(PROMPTS):
        expected = continue_plainly(model, tokenizer, prompt, 8)
        row = found["tokens"][i].numpy()
        assert row[: len(expected)].tolist() == expected and not row[len(expected) :].any()
        whole = tokenizer.encode_list([prompt])[0] + expected
        assert prompt + found["text"][i].numpy().decode() == tokenizer.decode_list([whole])[0]
    assert greedy(PROMPTS) == [greedy([prompt])[0] for prompt in PROMPTS]


def test_a_space_at_the_seam_is_kept(language_model, greedy):
    model, tokenizer = language_model
    space = tokenizer.encode_list([" "])[0][0]
    tokens = tf.constant([[space, 9, space]])
    assert tokenizer.decode(behind(tokens, tf.constant([0]))).numpy()[0].startswith(b" ")
    assert behind(tokens, tf.constant([1])).numpy().tolist() == [[9, space, PAD]]


def test_the_score_is_the_log_probability_of_prompt_and_continuation(language_model, greedy):
    model, tokenizer = language_model
    row = tokenizer.encode_list(["a dog"])[0] + continue_plainly(model, tokenizer, "a dog", 8)
    logits = np.asarray(model(np.array([[START, *row[:-1]]])), "float64")[0]
    log_probs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    expected = log_probs[np.arange(len(row)), row].sum()
    assert float(greedy.generate(["a dog"])["score"][0]) == pytest.approx(expected, rel=1e-4)


def test_of_a_long_prompt_the_end_counts(language_model, greedy):
    model, tokenizer = language_model
    long = "the old man and the sea, a dog"
    found = greedy.generate(tf.constant([long, "a"]))
    assert found["prompt"].numpy()[0].decode() == long[-12:]  # 20 positions, 8 of them kept free
    assert found["text"].numpy()[0].decode() == greedy([long[-12:]])[0]


def test_a_smaller_length_is_a_shorter_text(greedy):
    whole = greedy.generate(tf.constant(PROMPTS))["tokens"].numpy()
    for length, kept in ((3, 3), (99, 8), (0, 1)):
        found = greedy.limited(tf.constant(PROMPTS), tf.constant(length))["tokens"].numpy()
        np.testing.assert_array_equal(found, whole[:, :kept])


def test_a_seed_draws_the_same_and_none_draws_anew(language_model, drawing):
    first = drawing.generate(tf.constant(PROMPTS))["n_best"].numpy().tolist()
    assert first == drawing.generate(tf.constant(PROMPTS))["n_best"].numpy().tolist()
    assert len(first[0]) == 3 and len({text for row in first for text in row}) > 6
    anew = Generator(*language_model, {"kind": "sample", "temperature": 3.0}, 8)
    assert len({anew(["the old"])[0] for _ in range(4)}) > 2


def test_a_beam_finds_what_is_likelier(language_model, greedy):
    beam = Generator(*language_model, {"kind": "beam", "n_best": 2, "length_penalty": 0.0}, 8)
    found = beam.generate(tf.constant(PROMPTS))
    scores = found["n_best_score"].numpy()
    assert scores.shape == (4, 2) and (scores[:, 0] >= scores[:, 1]).all()
    plain = greedy.generate(tf.constant(PROMPTS))["score"].numpy()
    assert (scores[:, 0] >= plain - 1e-4).all()
    best, other = found["n_best"].numpy().T.tolist()
    assert best == found["text"].numpy().tolist()
    assert all(one != two for one, two in zip(best, other, strict=True))


def test_lengths_must_fit_the_model(language_model):
    assert Generator(*language_model).max_length == 10
    with pytest.raises(ValueError, match="must leave one of 20 positions; max_length=20"):
        Generator(*language_model, max_length=20)
    with pytest.raises(ValueError, match="max_length must be a whole number above zero"):
        Generator(*language_model, max_length=0)


SERVED = """
import json, sys
import tensorflow as tf
import tensorflow_text
prompts = tf.constant(json.loads(sys.argv[1]))
for folder in sys.argv[2:]:
    model = tf.saved_model.load(folder)
    assert not any(name.startswith("tfx_transformer") for name in sys.modules), "imported"
    limited = model.signatures["limited"](text=prompts, max_length=tf.constant(3))
    outs = [model.signatures["serving_default"](prompts) for _ in range(2)]
    print(json.dumps({"limited": limited["tokens"].shape.as_list(), "calls": [
        {name: out[name].numpy().tolist() for name in ("tokens", "score")}
        | {"text": [text.decode() for text in out["text"].numpy()]} for out in outs]}))
"""


def test_the_export_goes_on_in_a_process_without_this_package(language_model, tmp_path):
    seeded, free = (Generator(*language_model, DRAW | {"seed": seed}, 8) for seed in (5, None))
    folder = export_generator(seeded, tmp_path / "seeded", "a card")
    folders = [str(folder), str(export_generator(free, tmp_path / "free"))]
    command = [sys.executable, "-c", SERVED, json.dumps(PROMPTS), *folders]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert result.returncode == 0, result.stderr[-2000:]
    served, drawn = map(json.loads, result.stdout.splitlines())
    assert served["calls"][0] == served["calls"][1]
    assert drawn["calls"][0]["text"] != drawn["calls"][1]["text"]  # without a seed, anew each time
    own, found = seeded.generate(tf.constant(PROMPTS)), served["calls"][0]
    assert found["text"] == seeded(PROMPTS)
    assert found["tokens"] == own["tokens"].numpy().tolist()
    assert found["score"] == pytest.approx(own["score"].numpy().tolist(), abs=1e-4)
    assert served["limited"] == [4, 3] and (folder / "README.md").read_text() == "a card"
    told = inspect_export(folder)
    assert "needs tensorflow-text: Sentencepiece" in told and "  in  max_length: int32 []" in told


def test_an_export_is_loaded_and_is_no_classifier(greedy, tmp_path):
    folder = export_generator(greedy, tmp_path / "export")
    found = load_generator(folder)(PROMPTS, 8)
    assert [text.decode() for text in found["text"].numpy()] == greedy(PROMPTS)
    with pytest.raises(ValueError, match="that classifies pictures; this one continues texts"):
        load_classifier(folder)
