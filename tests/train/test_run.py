"""A tiny run from pairs to a SavedModel: its folder, its resume after a kill, its export."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tfx_transformer.train.recipe import Data, Decoding, Model, Optimizer, Recipe, load_recipe
from tfx_transformer.train.run import evaluate, load_run, train

WORDS = {"red": "rot", "blue": "blau", "cat": "Katze", "dog": "Hund", "old": "alt", "big": "groß"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rng = np.random.default_rng(0)
    for name, count in (("train", 600), ("val", 20), ("test", 20)):
        rows = [rng.choice(list(WORDS), size=rng.integers(2, 7)) for _ in range(count)]
        (folder / f"{name}.en").write_text("\n".join(" ".join(row) for row in rows))
        (folder / f"{name}.de").write_text(
            "\n".join(" ".join(WORDS[word] for word in row) for row in rows)
        )
    return folder


def recipe_of(corpus, **options):
    files = {
        split: (str(corpus / f"{name}.en"), str(corpus / f"{name}.de"))
        for split, name in (("train", "train"), ("validation", "val"), ("test", "test"))
    }
    return Recipe(
        data=Data(**files, vocab_size=300, max_length=16, token_budget=512),
        model=Model("transformer", "tiny", dim=32, mlp_dim=64, dropout=0.1),
        optimizer=Optimizer(learning_rate=5e-3, warmup_steps=20, ema=0.9),
        decoding=Decoding(width=3, n_best=2),
        **{"steps": 300, "eval_steps": 100, "average": 2} | options,
    )


@pytest.fixture(scope="module")
def run(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "it"
    scores = train(recipe_of(corpus), folder)
    return folder, scores


def test_the_run_learns_and_its_folder_is_complete(run):
    folder, scores = run
    assert scores["bleu"] > 60 and scores["perplexity"] < 3
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("tokenizer", "checkpoints", "samples"),
    }
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [100, 200, 300]
    assert lines[-1]["loss"] < lines[0]["loss"] and lines[-1]["tokens_per_second"] > 0
    assert "reference" in (folder / "samples/step_00000300.txt").read_text()


def test_a_folder_belongs_to_one_recipe(run, corpus):
    with pytest.raises(ValueError, match="holds a run of another recipe: seed changed"):
        train(recipe_of(corpus, seed=1), run[0])


def test_the_recipe_comes_back_from_its_file(run, corpus):
    assert load_recipe(run[0] / "recipe.json") == recipe_of(corpus)


def test_it_is_evaluated_on_other_data_too(run, corpus):
    scores = evaluate(run[0], (str(corpus / "val.en"), str(corpus / "val.de")))
    assert scores["sentences"] == 20 and scores["bleu"] > 60


def test_many_sentences_are_translated_as_one_by_one(run):
    translator = load_run(run[0]).translator()
    texts = ["red cat", "", "big old blue dog", "dog", "red " * 100]
    together = translator(texts, batch_size=2)
    assert together == [translator([text])[0] for text in texts]
    assert together[1] == ""


KILLED = """
from tfx_transformer.quiet import import_tensorflow
import_tensorflow()
import sys
from pathlib import Path
from tfx_transformer.train.recipe import load_recipe
from tfx_transformer.train.run import train
train(load_recipe(Path(sys.argv[1])), sys.argv[2])
"""


def test_a_killed_run_ends_in_the_same_weights(run, corpus, tmp_path):
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, str(run[0] / "recipe.json"), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.time() + 200
    while not (folder / "checkpoints/step_00000100.npz").exists():
        assert time.time() < deadline and process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "model.keras").exists()

    subprocess.run(command, check=True, capture_output=True, timeout=300)
    name = "checkpoints/step_00000300.npz"
    with np.load(run[0] / name) as whole, np.load(folder / name) as resumed:
        assert whole.files == resumed.files and len(whole.files) > 100
        for key in whole.files:
            np.testing.assert_array_equal(resumed[key], whole[key], err_msg=key)


def test_the_card_tells_scores_and_recipe(run):
    card = load_run(run[0]).card()
    assert "bleu" in card and '"learning_rate": 0.005' in card and "train.en" in card


def test_files_must_be_named_for_every_split(corpus, tmp_path):
    recipe = recipe_of(corpus)
    bare = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, test=()))
    with pytest.raises(ValueError, match="data.test must name a source: files have no splits"):
        train(bare, tmp_path / "a")
    with pytest.raises(ValueError, match="data.train must name a source"):
        train(Recipe(), tmp_path / "b")
    with pytest.raises(ValueError, match="holds no finished run"):
        load_run(tmp_path / "c")
