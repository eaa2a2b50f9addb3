"""A tiny run from pairs to a SavedModel: its folder, its resume after a kill, its export."""

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.train import run as run_module
from tfx_transformer.train.cli import main
from tfx_transformer.train.recipe import OptimizerOptions, load_recipe
from tfx_transformer.train.run import evaluate, train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.base import Evaluation, Evaluator
from tfx_transformer.train.tasks.translation import TranslationRecipe
from tfx_transformer.train.tasks.translation.task import TranslationTask
from tfx_transformer.training.callbacks import MetricsLog


def test_the_run_learns_and_its_folder_is_complete(run):
    folder, scores = run
    assert scores["bleu"] > 60 and scores["perplexity"] < 3
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("cache", "tokenizer", "checkpoints", "samples", "tensorboard"),
    }
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [100, 200, 300]
    assert lines[-1]["loss"] < lines[0]["loss"] and lines[-1]["tokens_per_second"] > 0
    assert "reference" in (folder / "samples/step_00000300.txt").read_text()


def test_averages_stand_beside_the_weights_and_are_what_is_best(run):
    with np.load(run[0] / "checkpoints/step_00000300.npz") as last:
        weights = [last[name] for name in last.files if name.startswith("weight/")]
        stored = [last[name] for name in last.files if name.startswith("optimizer/")]
    with np.load(run[0] / "checkpoints/best.npz") as best:
        chosen = [best[name] for name in best.files if name.startswith("weight/")]
        averages = [best[name] for name in best.files if name.startswith("optimizer/")]

    def holds(arrays, weight):
        return any(np.array_equal(array, weight) for array in arrays)

    assert all(holds(averages, weight) for weight in chosen if weight.ndim == 2)
    assert not any(holds(stored, weight) for weight in weights if weight.ndim == 2)


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_half_precision_goes_on_with_its_loss_scale(recipe_of, ema, tmp_path):
    recipe = recipe_of(precision="mixed_float16", steps=22, eval_steps=21, average=1)
    recipe = dataclasses.replace(recipe, optimizer=dataclasses.replace(recipe.optimizer, ema=ema))
    train(recipe, tmp_path / "run")
    for file in (tmp_path / "run/checkpoints").glob("step_00000022.npz"):
        file.unlink()  # as if it had been killed before
    train(recipe, tmp_path / "run")
    assert keras.config.dtype_policy().name == "float32"
    assert load_run(tmp_path / "run").model.compute_dtype == "float32"
    assert [x["step"] for x in MetricsLog(tmp_path / "run/metrics.jsonl").read()] == [21, 22]


def test_a_folder_belongs_to_one_recipe(run, recipe_of):
    with pytest.raises(ValueError, match="holds a run of another recipe: seed was 0, is 1; choose"):
        train(recipe_of(seed=1), run[0])


def test_the_recipe_comes_back_from_its_file(run, recipe_of):
    """With the precision that was chosen: the model is narrow."""
    assert load_recipe(run[0] / "recipe.json") == recipe_of(precision="float32")


class NoEvaluator(Evaluator):
    def evaluate(self, whole=False):
        return Evaluation({"bleu": 0.0}, "", [])


@pytest.fixture
def not_scored(monkeypatch):
    """Runs of translators without evaluations, which take most of their time."""
    monkeypatch.setattr(run_module, "evaluate", lambda folder, workers: {})
    monkeypatch.setattr(TranslationTask, "evaluator", lambda task, model: NoEvaluator())


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
def test_a_run_with_more_steps_later_is_the_run_with_as_many_at_once(
    recipe_of, not_scored, schedule, tmp_path
):
    own = OptimizerOptions(warmup_steps=2, schedule=schedule, ema=0.9)
    recipe = recipe_of(steps=5, eval_steps=2, average=1, optimizer=own)
    train(recipe, tmp_path / "at once")
    train(dataclasses.replace(recipe, steps=3), tmp_path / "later")
    train(recipe, tmp_path / "later")
    name = "checkpoints/step_00000005.npz"
    with np.load(tmp_path / "at once" / name) as whole, np.load(tmp_path / "later" / name) as later:
        assert whole.files == later.files
        for key in whole.files:
            np.testing.assert_array_equal(later[key], whole[key], err_msg=key)


def join_batches(batches):
    """One batch with the rows of several, padded."""

    def join(*arrays):  # (B, T) each, with another T
        width = max(array.shape[1] for array in arrays)
        pads = [((0, 0), (0, width - array.shape[1])) for array in arrays]
        return np.concatenate([np.pad(a, pad) for a, pad in zip(arrays, pads, strict=True)])

    return tf.nest.map_structure(join, *batches)


def test_accumulated_batches_make_the_update_of_one_batch_with_all_rows(
    recipe_of, not_scored, tmp_path, monkeypatch
):
    own = OptimizerOptions(learning_rate=0.02, warmup_steps=2, accumulate=3, ema=0.5)
    own = dataclasses.replace(own, epsilon=1e-3, clip_norm=0.1, weight_decay=0.01)
    recipe = recipe_of(steps=4, eval_steps=4, average=1, optimizer=own)
    recipe = dataclasses.replace(recipe, model=recipe.model.replace(dropout=0.0))
    batches, token_counts = TranslationTask.batches, []

    def joined(task, done):
        parts = batches(task, 0).take(12).as_numpy_iterator()
        triples = list(zip(parts, parts, parts, strict=True))
        token_counts.extend(weights.sum() for triple in triples for _, _, weights in triple)
        made = [join_batches(triple) for triple in triples]
        return tf.data.Dataset.from_generator(
            lambda: made, output_signature=batches(task, 0).element_spec
        )

    train(recipe, tmp_path / "accumulated")
    monkeypatch.setattr(TranslationTask, "batches", joined)
    optimizer = dataclasses.replace(own, accumulate=1)
    one = dataclasses.replace(recipe, optimizer=optimizer, steps_per_execution=2)
    train(one, tmp_path / "joined")
    assert max(token_counts) > 1.2 * min(token_counts)
    found = [
        np.load(tmp_path / folder / "checkpoints/step_00000004.npz")
        for folder in ("accumulated", "joined")
    ]
    for name in found[1].files:
        if not name.startswith("optimizer/"):
            np.testing.assert_allclose(found[0][name], found[1][name], atol=1e-5, err_msg=name)
    best = [np.load(tmp_path / x / "checkpoints/best.npz") for x in ("accumulated", "joined")]
    for name in best[1].files:  # the averages
        if name.startswith("weight/"):
            np.testing.assert_allclose(best[0][name], best[1][name], atol=1e-5, err_msg=name)


def test_a_stopped_and_killed_run_continues_to_the_same_weights(run, tmp_path, capsys):
    folder = tmp_path / "stopped"
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "train", "--resume", str(folder)]
    folder.mkdir()
    shutil.copy(run[0] / "recipe.json", folder)
    for number, name in (
        (signal.SIGTERM, "lock"),
        (signal.SIGINT, "checkpoints/step_00000100.npz"),
        (signal.SIGKILL, "checkpoints/step_00000200.npz"),
    ):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.time() + 200
        while not (folder / name).exists():
            assert time.time() < deadline and process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        errors = process.communicate(timeout=200)[1]
        if number == signal.SIGKILL:
            assert process.returncode == -number
            break
        assert process.returncode == 128 + number and "Traceback" not in errors
        last = errors
    end = f"of 300, with a checkpoint; continue with: tfx-transformer train --resume {folder}"
    assert end in last and not (folder / "model.keras").exists()

    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    name = "checkpoints/step_00000300.npz"
    with np.load(run[0] / name) as whole, np.load(folder / name) as resumed:
        assert whole.files == resumed.files and len(whole.files) > 100
        for key in whole.files:
            np.testing.assert_array_equal(resumed[key], whole[key], err_msg=key)
    with (
        np.load(run[0] / "checkpoints/best.npz") as a,
        np.load(folder / "checkpoints/best.npz") as b,
    ):
        assert a["step"] == b["step"]
    main(["train", "--resume", str(folder)])
    again = capsys.readouterr()
    assert f"{folder} is finished" in again.out
    assert "step" not in again.err and "bleu" in result.stdout


def test_a_run_whose_validation_is_nan_has_best_weights_and_ends(language_recipe_of, tmp_path):
    recipe = language_recipe_of(steps=2, eval_steps=1, average=2)
    huge = OptimizerOptions(learning_rate=1e30, warmup_steps=1)
    recipe = dataclasses.replace(recipe, optimizer=huge, steps=1)
    scores = train(recipe, tmp_path)
    (line,) = MetricsLog(tmp_path / "metrics.jsonl").read()
    assert np.isnan(line["log_prob"]) and np.isnan(scores["log_prob"])
    assert (tmp_path / "checkpoints/best.npz").exists() and (tmp_path / "model.keras").exists()

    other = tmp_path / "longer"
    with pytest.raises(FloatingPointError, match="step 2; try a lower .*, in another folder"):
        train(dataclasses.replace(recipe, steps=3), other)
    calm = dataclasses.replace(recipe, optimizer=OptimizerOptions(), steps=3)
    with pytest.raises(ValueError, match="optimizer.learning_rate was 1e.30, is 0.001; "):
        train(calm, other)
    shutil.rmtree(other)  # as the message says
    assert np.isfinite(train(calm, other)["log_prob"])


def test_training_data_must_be_named(tmp_path):
    with pytest.raises(ValueError, match="data.train must name a source"):
        train(TranslationRecipe(), tmp_path / "b")


def test_other_data_is_evaluated_without_writing_the_scores(run, corpus):
    before = (run[0] / "test.json").read_text()
    scores = evaluate(run[0], (str(corpus / "val.en"), str(corpus / "val.de")))
    assert scores["sentences"] == 20 and scores["bleu"] > 60
    assert (run[0] / "test.json").read_text() == before


@pytest.mark.parametrize("name, metric", [("run", "bleu"), ("caption_run", "bleu_4")])
def test_other_options_are_evaluated_without_writing_the_scores(name, metric, request):
    folder = request.getfixturevalue(name)[0]
    before = json.loads((folder / "test.json").read_text())
    scores = evaluate(folder, kind="greedy", max_length=2)
    assert scores[metric] < 50 < before[metric]
    assert json.loads((folder / "test.json").read_text()) == before


def test_a_classifier_has_no_decoding_options_and_one_source(classify_run):
    with pytest.raises(ValueError, match="a classifier has no option width; got width=3"):
        evaluate(classify_run[0], width=3)
    with pytest.raises(ValueError, match="data of a classifier must be one source; got a b"):
        evaluate(classify_run[0], ("a", "b"))
