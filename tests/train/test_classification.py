"""A classifier of colours, from a folder of pictures to its scores."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from tfx_transformer.convert import read_weights
from tfx_transformer.train.classification import Classification
from tfx_transformer.train.evaluation import evaluate
from tfx_transformer.train.folder import load_classify_run, load_translate_run
from tfx_transformer.train.recipe import ClassifyModel
from tfx_transformer.train.run import train


def test_the_run_learns_and_its_folder_is_complete(classify_run):
    folder, scores = classify_run
    assert scores["accuracy"] > 85 and set(scores["by_class"]) <= {"blue", "green", "red"}
    assert scores["images_per_second"] > 0 and 0 <= scores["calibration_error"] < 1
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("classes.json", "checkpoints", "samples", "tensorboard", "pictures"),
    }
    assert json.loads((folder / "classes.json").read_text()) == ["blue", "green", "red"]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [30, 60]
    for name in ("loss", "validation_loss", "top_5", "images_per_second", "waiting_for_data"):
        assert name in lines[-1]
    assert "by_class" in (folder / "samples/step_00000060.json").read_text()


def test_a_stopped_run_ends_in_the_same_weights(classify_run, classify_recipe_of, tmp_path):
    train(classify_recipe_of(steps=30), tmp_path)
    train(classify_recipe_of(), tmp_path)
    name = "checkpoints/step_00000060.npz"
    with np.load(classify_run[0] / name) as whole, np.load(tmp_path / name) as resumed:
        assert whole.files == resumed.files
        for key in whole.files:
            np.testing.assert_array_equal(resumed[key], whole[key], err_msg=key)


def test_the_test_set_of_another_source_must_have_the_same_classes(classify_run, pictures):
    before = (classify_run[0] / "test.json").read_text()
    scores = evaluate(classify_run[0], (str(pictures),))
    assert scores["accuracy"] == pytest.approx(classify_run[1]["accuracy"])
    assert (classify_run[0] / "test.json").read_text() == before
    with pytest.raises(ValueError, match="must have the run's classes, blue, green, red"):
        evaluate(classify_run[0], ("embedded:digits",))


def test_bad_data_leaves_nothing_behind(classify_recipe_of, tmp_path):
    recipe = classify_recipe_of()
    for source, message in (("", "data.source must name a source"), ("/no/where", "/no/where")):
        bad = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, source=source))
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            train(bad, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_begins_with_the_weights_of_others_and_a_head_of_its_own(classify_recipe_of):
    fixture = Path(__file__).parents[1] / "fixtures/timm.safetensors"
    sizes = dict(patch_size=4, dim=12, depth=2, num_heads=3, mlp_dim=30)
    recipe = classify_recipe_of(
        weights=str(fixture), model=ClassifyModel(variant="tiny", image_size=20, **sizes)
    )
    model = Classification(recipe).make_model()
    stored = read_weights(fixture)
    kernel = model.blocks[1].self_attention.query.kernel
    np.testing.assert_array_equal(kernel, stored["blocks.1.attn.qkv.weight"][:12].T)
    assert model.heads[0].kernel.shape == (12, 3)


def test_a_classifier_is_no_translator(classify_run, run):
    with pytest.raises(ValueError, match="holds a classifier, not a translator"):
        load_translate_run(classify_run[0])
    with pytest.raises(ValueError, match="holds a translator, not a classifier"):
        load_classify_run(run[0])


def test_the_card_tells_scores_and_source(classify_run, pictures):
    card = load_classify_run(classify_run[0]).card()
    assert str(pictures) in card and "accuracy" in card
