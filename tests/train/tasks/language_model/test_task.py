"""A language model of letters, from a text to its scores."""

import dataclasses
import json
import math
import shutil

import numpy as np
import pytest

from tfx_transformer.data import START
from tfx_transformer.train.run import evaluate, train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.language_model.task import LanguageModelTask
from tfx_transformer.train.tasks.text import read_splits


def test_the_run_learns_and_its_folder_is_complete(language_run):
    folder, scores = language_run
    assert scores["perplexity"] < 2 and scores["accuracy"] > 70
    assert scores["tokens"] == scores["characters"] > 500 and scores["tokens_per_second"] > 0
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("tokenizer", "checkpoints", "samples", "tensorboard"),
    }
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [80, 160]
    for name in ("loss", "log_prob", "perplexity", "accuracy", "tokens_per_second"):
        assert name in lines[-1]
    assert lines[-1]["log_prob"] > lines[0]["log_prob"]
    text = (folder / "samples/step_00000160.txt").read_text()
    prompt = read_splits(load_run(folder, "language_model").recipe.data)["validation"][:24]
    assert text.startswith(f"{prompt}|")


def test_the_scores_are_of_every_character_in_its_window(language_run):
    folder, scores = language_run
    run = load_run(folder, "language_model")
    text = read_splits(run.recipe.data)["test"]
    ids = run.task.tokenizer.encode_list([text])[0]
    nats, right = 0.0, 0
    for i in range(0, len(ids), 32):
        window = ids[i : i + 32]
        logits = np.asarray(run.model(np.array([[START, *window[:-1]]])), "float64")[0]
        shares = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        nats -= np.log(shares[np.arange(len(window)), window]).sum()
        right += (logits.argmax(axis=-1) == window).sum()
    assert scores["log_prob"] == pytest.approx(-nats / len(ids), rel=1e-4)
    assert scores["perplexity"] == pytest.approx(math.exp(nats / len(ids)), rel=1e-4)
    assert scores["bits_per_character"] == pytest.approx(nats / math.log(2) / len(text), rel=1e-4)
    assert scores["accuracy"] == pytest.approx(100 * right / len(ids), abs=0.2)


def test_a_stopped_run_ends_in_the_same_weights(language_run, language_recipe_of, tmp_path):
    folder, name = tmp_path / "stopped", "checkpoints/step_00000160.npz"
    shutil.copytree(language_run[0], folder)
    for file in (name, "model.keras", "test.json"):  # as it was after the first evaluation
        (folder / file).unlink()
    first = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)[0]
    (folder / "metrics.jsonl").write_text(first)
    train(language_recipe_of(), folder)
    with np.load(language_run[0] / name) as whole, np.load(folder / name) as resumed:
        assert whole.files == resumed.files
        for key in whole.files:
            np.testing.assert_array_equal(resumed[key], whole[key], err_msg=key)


def test_the_best_weights_are_those_of_the_greatest_log_probability(language_run):
    """Log-probabilities are below zero."""
    folder = language_run[0] / "checkpoints"
    lines = (language_run[0] / "metrics.jsonl").read_text().splitlines()
    best = max(map(json.loads, lines), key=lambda line: line["log_prob"])["step"]
    with np.load(folder / "best.npz") as kept, np.load(folder / f"step_{best:08d}.npz") as file:
        for key in {*kept.files} - {"step"}:
            np.testing.assert_array_equal(kept[key], file[key])


def test_it_goes_on_with_what_it_has_learned(language_run):
    run = load_run(language_run[0], "language_model")
    generator = run.pipeline(kind="greedy", max_length=6)
    said = generator(["red rot cat ", "dog "])
    assert said[0][:5] == "Katze" and said[1][:4] == "Hund"
    drawn = run.task.stream(run.model, temperature=0.5, seed=3)
    assert "".join(drawn("big ", 99)) == "".join(drawn("big ", 99))
    assert "".join(drawn("cat ", 5)) == "Katze"


def test_another_text_is_scored_too(language_run, corpus):
    before = (language_run[0] / "test.json").read_text()
    scores = evaluate(language_run[0], (str(corpus / "val.en"),))
    assert scores["perplexity"] > language_run[1]["perplexity"]  # the German words are missing
    assert (language_run[0] / "test.json").read_text() == before
    with pytest.raises(ValueError, match="a language model has no option width; got width=3"):
        evaluate(language_run[0], width=3)
    with pytest.raises(ValueError, match="data of a language model must be one source; got a b"):
        evaluate(language_run[0], ("a", "b"))


def test_it_is_no_translator(language_run, classify_text_run):
    with pytest.raises(ValueError, match="holds a language model, not a translator"):
        load_run(language_run[0], "translation")
    with pytest.raises(ValueError, match="holds a text classifier, not a language model"):
        load_run(classify_text_run[0], "language_model")


def test_bad_data_leaves_nothing_behind(language_recipe_of, tmp_path):
    recipe = language_recipe_of()
    for path, message in (("", "--data.train must name a source"), ("/no/where", "/no/where")):
        bad = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, train=path))
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            train(bad, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_subwords_are_another_vocabulary(language_recipe_of, sentences, tmp_path):
    own, text = language_recipe_of(), sentences.read_text()
    subwords = dataclasses.replace(own.data, tokenizer="unigram", vocab_size=300)
    counts = []
    for data in (own.data, subwords):
        task, folder = LanguageModelTask(dataclasses.replace(own, data=data)), tmp_path
        task.load_data()
        task.prepare(folder / data.tokenizer)
        stored = folder / data.tokenizer / "tokenizer/text.model"
        assert stored.read_bytes() == task.tokenizer.model
        counts.append(len(task.tokenizer.encode_list([text])[0]))
    assert counts[0] == len(text) > 2 * counts[1]
