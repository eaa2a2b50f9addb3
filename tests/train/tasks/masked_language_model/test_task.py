"""A model that fills in blanks, from a file of sentences to its scores."""

import json

import numpy as np
import pytest

from tfx_transformer.train.run import evaluate
from tfx_transformer.train.run_folder import load_run


def test_the_run_learns_and_its_folder_is_complete(mask_run):
    folder, scores = mask_run
    assert scores["accuracy"] > 60  # by chance a twelfth
    assert scores["masked_tokens"] > 20 and scores["masked_tokens_per_second"] > 0
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("tokenizer", "checkpoints", "samples", "tensorboard"),
    }
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [60, 120]
    for name in ("loss", "log_prob", "perplexity", "accuracy", "tokens_per_second"):
        assert name in lines[-1]
    text, hidden, said = (folder / "samples/step_00000120.txt").read_text().splitlines()[:3]
    assert text.startswith("text       <s> ") and "[MASK]" in text
    assert len(hidden.split()) == len(said.split()) > 1


def test_the_accuracy_is_that_of_the_masked_tokens(mask_run):
    folder, scores = mask_run
    run = load_run(folder)
    run.task.load_data()
    right = total = 0
    for inputs, targets, weights in run.task.evaluation_data(run.task.texts["test"]).dataset():
        found = np.asarray(run.model(inputs)).argmax(axis=-1)
        right += ((found == targets) * weights).numpy().sum()
        total += weights.numpy().sum()
    assert (scores["masked_tokens"], scores["accuracy"]) == (
        total,
        pytest.approx(100 * right / total),
    )
    assert run.model.vocab_size == run.task.tokenizer.vocab_size + 1


def test_another_text_is_scored_too(mask_run, corpus):
    before = (mask_run[0] / "test.json").read_text()
    scores = evaluate(mask_run[0], (str(corpus / "val.en"),))
    assert scores["accuracy"] < mask_run[1]["accuracy"]  # the German words are missing
    assert (mask_run[0] / "test.json").read_text() == before
