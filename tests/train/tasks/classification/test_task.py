"""A classifier of colors, from a folder of pictures to its scores."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.convert import read_weights
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.run import evaluate, train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.classification.task import ClassificationTask
from tfx_transformer.train.tasks.pretrained import check_normalization


def task_of(recipe):
    """The recipe's task, with its data."""
    task = ClassificationTask(recipe)
    task.load_data()
    return task


def test_the_run_learns_and_its_folder_is_complete(classify_run):
    folder, scores = classify_run
    assert scores["accuracy"] > 85 and set(scores["by_class"]) <= {"blue", "green", "red"}
    assert scores["images_per_second"] > 0 and 0 <= scores["calibration_error"] < 1
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("classes.json", "skipped.json", "checkpoints", "samples", "tensorboard", "pictures"),
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
    fixture = Path(__file__).parents[3] / "fixtures/timm.safetensors"
    sizes = dict(patch_size=4, dim=12, depth=2, num_heads=3, mlp_dim=30)
    recipe = classify_recipe_of(
        weights=str(fixture), model=ModelOptions.of("vit", "test", image_size=20, **sizes)
    )
    model = task_of(recipe).make_model()
    stored = read_weights(fixture)
    kernel = model.blocks[1].self_attention.query.kernel
    np.testing.assert_array_equal(kernel, stored["blocks.1.attn.qkv.weight"][:12].T)
    assert model.heads[0].kernel.shape == (12, 3)


def test_the_sizes_come_from_the_config_beside_the_weights(classify_recipe_of, tmp_path):
    fixture = Path(__file__).parents[3] / "fixtures/hugging_face_vit.safetensors"
    shutil.copy(fixture, tmp_path / "model.safetensors")
    shutil.copy(fixture.with_suffix(".json"), tmp_path / "config.json")
    config = json.loads((tmp_path / "config.json").read_text())
    model = task_of(
        classify_recipe_of(weights=str(tmp_path), model=ModelOptions.of("vit", "ti16"))
    ).make_model()
    assert (model.dim, model.depth) == (config["hidden_size"], config["num_hidden_layers"])
    assert model.norm == {"kind": "layer", "epsilon": config["layer_norm_eps"]}
    assert model.num_classes == 3


def test_a_run_goes_on_from_another_with_larger_images(classify_run, classify_recipe_of):
    source = load_run(classify_run[0], "classification").model
    recipe = classify_recipe_of(
        weights=str(classify_run[0]), model=ModelOptions.of("vit", "ti16", image_size=24)
    )
    model = task_of(recipe).make_model()
    assert model.image_size == 24 and model.depth == source.depth == 1
    images = np.random.default_rng(0).normal(size=(2, 24, 24, 3)).astype("float32")
    seen, expected = model.encode(images)[0], source.encode(images)[0]  # which resizes its own
    np.testing.assert_allclose(seen, expected, atol=1e-5)
    np.testing.assert_allclose(model(images), source(images), atol=1e-5)  # the classes are the same
    with pytest.raises(ValueError, match="is of a model 'vit'; got 'swin'"):
        task_of(
            classify_recipe_of(weights=str(classify_run[0]), model=ModelOptions.of("swin", "test"))
        ).make_model()


def test_other_classes_have_a_head_of_their_own(classify_run, classify_recipe_of, capsys):
    task = task_of(classify_recipe_of(weights=str(classify_run[0])))
    task.class_names = ["dusk", "dawn"]
    assert task.make_model().num_classes == 2
    left = capsys.readouterr().out.split("except ")[1].split(", ")
    assert left and all(name.startswith("head") for name in left)


def test_pixels_must_be_as_the_weights_have_seen_them(classify_run, classify_recipe_of, tmp_path):
    def refuses(weights, message):
        recipe = classify_recipe_of(weights=str(weights))
        data = dataclasses.replace(recipe.data, normalization="imagenet")
        with pytest.raises(ValueError, match=message):
            task_of(dataclasses.replace(recipe, data=data))

    refuses(classify_run[0], f"must be half, as {classify_run[0]} has it; got imagenet")
    (tmp_path / "model.safetensors").touch()
    theirs = tmp_path / "preprocessor_config.json"
    theirs.write_text(json.dumps({"image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    refuses(tmp_path, f"must be half, as {tmp_path} has it; got imagenet")
    theirs.write_text(json.dumps({"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 1, 1]}))
    check_normalization(str(tmp_path), "half")  # we have none such: the user chooses


def test_what_cannot_be_read_is_named_for_every_split(classify_recipe_of, tmp_path, capsys):
    for split in ("train", "val", "test"):
        for name, gray in (("a", 10), ("b", 200)):
            (tmp_path / f"pictures/{split}/{name}").mkdir(parents=True)
            file = tf.io.encode_png(np.full((9, 9, 3), gray, "uint8")).numpy()
            (tmp_path / f"pictures/{split}/{name}/0.png").write_bytes(file)
    (tmp_path / "pictures/val/a/bad.png").write_bytes(b"")
    (tmp_path / "pictures/test/b/worse.jpg").write_bytes(b"no picture")
    recipe = classify_recipe_of()
    data = dataclasses.replace(recipe.data, source=str(tmp_path / "pictures"))
    task_of(dataclasses.replace(recipe, data=data)).prepare(tmp_path)
    told = capsys.readouterr().out
    assert "skipped: 1 (val/a/bad.png: empty file)" in told
    assert "skipped: 1 (test/b/worse.jpg: not an image)" in told
    assert json.loads((tmp_path / "skipped.json").read_text()) == {
        "train": {},
        "validation": {"val/a/bad.png": "empty file"},
        "test": {"test/b/worse.jpg": "not an image"},
    }


def test_a_classifier_is_no_translator(classify_run, run):
    with pytest.raises(ValueError, match="holds a classifier, not a translator"):
        load_run(classify_run[0], "translation")
    with pytest.raises(ValueError, match="holds a translator, not a classifier"):
        load_run(run[0], "classification")


def test_the_card_has_scores_and_the_name_of_the_source(classify_run, pictures):
    card = load_run(classify_run[0], "classification").card()
    assert f"Data: {pictures.name}\n" in card and "accuracy" in card and str(pictures) not in card
