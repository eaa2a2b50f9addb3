"""A classifier of texts, from a file to its scores."""

import dataclasses
import json

import numpy as np
import pytest

from tfx_transformer.train.run import evaluate, train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.text import sentence_tokenizer
from tfx_transformer.train.tasks.text_classification import TextClassificationData
from tfx_transformer.train.tasks.text_classification.task import load_split


def test_the_run_learns_and_its_folder_is_complete(classify_text_run):
    folder, scores = classify_text_run
    assert scores["accuracy"] > 90 and set(scores["by_class"]) == {"cat", "dog"}
    assert "images" not in scores and (folder / "pictures/confusion.png").stat().st_size > 3000
    assert json.loads((folder / "classes.json").read_text()) == ["cat", "dog"]
    assert scores["texts_per_second"] > 0 and scores["texts"] > 10 and scores["loss"] < 0.5
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("classes.json", "tokenizer", "checkpoints", "samples", "tensorboard", "pictures"),
    }
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [30, 60]
    for name in ("loss", "validation_loss", "accuracy", "texts_per_second"):
        assert name in lines[-1]
    assert "by_class" in (folder / "samples/step_00000060.json").read_text()


def test_many_texts_are_classified_as_one_by_one(classify_text_run):
    run = load_run(classify_text_run[0], "text_classification")
    classifier, texts = run.pipeline(), ["old red dog", "", "Katze", "big " * 40, "Hund"]
    together = run.task.probabilities(classifier, texts)
    alone = np.concatenate([run.task.probabilities(classifier, [text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert [run.task.class_names[i] for i in together.argmax(axis=1)[[0, 2, 4]]] == [
        "dog",
        "cat",
        "dog",
    ]


def test_the_splits_that_are_not_named_come_from_the_first(labeled, tmp_path):
    other = tmp_path / "other.tsv"
    other.write_text("a cat\tcat\nthe dog\tdog\n")
    data = TextClassificationData(str(labeled))
    parts = {split: load_split(data, split) for split in ("train", "validation", "test")}
    named = TextClassificationData(str(labeled), test=str(other))
    assert load_split(named).texts == ["a cat", "the dog"]
    assert len(load_split(named, "train")) == len(parts["train"]) + len(parts["test"])
    assert load_split(named, "validation") == parts["validation"]


def test_other_data_must_have_the_same_classes(classify_text_run, labeled, tmp_path):
    before = (classify_text_run[0] / "test.json").read_text()
    scores = evaluate(classify_text_run[0], (str(labeled),))
    assert scores["texts"] == len(labeled.read_text().splitlines()) and scores["accuracy"] > 90
    assert (classify_text_run[0] / "test.json").read_text() == before
    other = tmp_path / "other.tsv"
    other.write_text("a cat\tcat\nthe cow\tcow\n")
    with pytest.raises(ValueError, match=r"other.tsv .* must have the classes cat, dog .* got cow"):
        evaluate(classify_text_run[0], (str(other),))


def test_bad_data_leaves_nothing_behind(classify_text_recipe_of, tmp_path):
    recipe = classify_text_recipe_of()
    for source, message in (
        ("", "data.train must name a source"),
        ("no.tsv", "there is no no.tsv"),
    ):
        bad = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, train=source))
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            train(bad, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_it_is_not_an_image_classifier(classify_text_run):
    with pytest.raises(ValueError, match="holds a text classifier, not a classifier"):
        load_run(classify_text_run[0], "classification")


def test_capital_letters_may_be_the_same_as_small_ones(classify_text_recipe_of, tmp_path):
    data = classify_text_recipe_of().data
    for lower_case in (True, False):
        own = dataclasses.replace(data, lower_case=lower_case)
        tokenizer = sentence_tokenizer(own, ["red cat", "big dog"] * 9, tmp_path / str(lower_case))
        one, other = tokenizer.encode_list(["red cat", "Red CAT"])
        assert (one == other) == lower_case
