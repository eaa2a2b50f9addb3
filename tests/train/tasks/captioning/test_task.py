"""A model that says which color a picture has, from its files to its scores."""

import dataclasses
import json
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.convert import read_weights
from tfx_transformer.data.tfds import LazyImages
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.run import evaluate, train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.captioning import CaptioningRecipe
from tfx_transformer.train.tasks.captioning import task as captioning
from tfx_transformer.train.tasks.captioning.task import (
    CaptioningEvaluator,
    CaptioningTask,
    describe,
    encode_images,
    encoder_options,
    load_split,
)

FIXTURE = Path(__file__).parents[3] / "fixtures/timm.safetensors"
SIZES = dict(image_size=20, patch_size=4, dim=12, depth=2, num_heads=3, mlp_dim=30)
VIT = {"kind": "vit", "variant": "test", "options": SIZES}


class Tokens:
    vocab_size = 30


def task_of(recipe):
    """The recipe's task, with its data."""
    task = CaptioningTask(recipe)
    task.load_data()
    return task


def model_of(recipe):
    """The recipe's model."""
    task = CaptioningTask(recipe)
    task.tokenizer = Tokens
    return task.make_model()


@pytest.fixture(scope="module")
def loaded(caption_run):
    return load_run(caption_run[0])


@pytest.fixture(scope="module")
def captioner(loaded):
    return loaded.pipeline()


def test_the_run_learns_and_its_folder_is_complete(caption_run):
    folder, scores = caption_run
    assert scores["bleu_4"] > 90 and scores["bleu_1"] > 90 and scores["chrf"] > 90
    assert scores["images"] == 6 and scores["images_per_second"] > 0
    assert json.loads((folder / "test.json").read_text()) == scores
    present = {path.name for path in folder.iterdir()}
    assert present == {
        *("recipe.json", "versions.json", "metrics.jsonl", "model.keras", "test.json"),
        *("tokenizer", "checkpoints", "samples", "tensorboard", "skipped.json"),
    }
    assert set(json.loads((folder / "skipped.json").read_text())) == {"train", "validation", "test"}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [60, 120]
    assert lines[1]["loss"] < lines[0]["loss"]
    for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "chrf", "tokens_per_second"):
        assert lines[-1][name] > 0
    samples = (folder / "samples/step_00000120.txt").read_text()
    assert samples.count("reference  A small ") == samples.count("model      ") == 5
    assert "blue/4.png\nreference  A small blue picture ." in samples


def test_every_picture_is_told_by_its_own_color(captioner, loaded):
    captions = load_split(loaded.recipe.data, "train")  # more than are looked at together
    assert len(captions) > 3 * captioning.BATCH_SIZE
    seen = encode_images(captioner, captions)
    assert seen.shape == (len(captions), 16, 5) and seen.dtype == np.float16
    alone, _ = captioner.read(tf.constant([captions.items[40]]))
    np.testing.assert_allclose(seen[40], captioner.encode(alone)[0], atol=1e-2)
    said = describe(captioner, seen)
    right = [file.split("/")[0] in text for file, text in zip(captions.files, said, strict=True)]
    assert len(right) == len(captions) and np.mean(right) > 0.9


def test_the_evaluator_scores_the_first_pictures_or_all(captioner, loaded, tmp_path, capsys):
    captions = load_split(loaded.recipe.data, "validation")
    evaluator = CaptioningEvaluator(captioner, captions, count=4)
    result = evaluator.evaluate()
    evaluator.report(result, 7, tmp_path / "samples")
    scores = result.scores
    assert set(scores) == {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "chrf"}
    samples = (tmp_path / "samples/step_00000007.txt").read_text()
    files = [file for file in captions.files if file in samples]
    assert files == captions.files[:4]
    shown = capsys.readouterr().out
    assert shown.startswith("step 7: bleu_1 ") and files[2] in shown and files[3] not in shown
    whole = evaluator.evaluate(whole=True)
    assert whole.scores["bleu_4"] > 90 and len(whole.samples) == len(captions)
    assert whole == CaptioningEvaluator(captioner, captions, count=1000).evaluate()


def test_pictures_are_read_one_by_one_where_there_are_many(loaded, monkeypatch):
    captions = load_split(loaded.recipe.data)
    rows = [{"image": item} for item in captions.items]
    lazy = dataclasses.replace(captions, items=LazyImages(rows, list(range(6)), "image"))
    monkeypatch.setattr(captioning, "load_captions", lambda *_, **__: lazy)
    scores = loaded.task.test(loaded, (), kind="greedy")
    assert scores["images"] == 6 and scores["bleu_4"] > 90


def test_other_pictures_captions_and_names_are_scored(caption_run, pictures, captions, tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("red/2.png\nblue/1.jpg\nred/9.jpg\n")
    before = (caption_run[0] / "test.json").read_text()
    scores = evaluate(caption_run[0], (str(pictures), str(captions), str(names)))
    assert scores["images"] == 3 and scores["bleu_4"] > 70
    assert (caption_run[0] / "test.json").read_text() == before
    with pytest.raises(ValueError, match="data must be images, captions and names; got a b c d"):
        evaluate(caption_run[0], tuple("abcd"))
    with pytest.raises(ValueError, match="captions must be a file with those of"):
        evaluate(caption_run[0], (str(pictures),))


def test_bad_data_leaves_nothing_behind(caption_recipe_of, tmp_path):
    recipe = caption_recipe_of()

    def refuses(message, data=recipe.data, **options):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            train(dataclasses.replace(recipe, data=data, **options), tmp_path / "run")

    refuses("--data.images must name a source", dataclasses.replace(recipe.data, images=""))
    refuses("/no/where", dataclasses.replace(recipe.data, images="/no/where"))
    refuses("captions must be a file", dataclasses.replace(recipe.data, captions=""))
    names = recipe.data.captions  # any file
    some = dataclasses.replace(recipe.data, train=names, test=names)
    refuses("must all name a file, or none of them; got train and test", some)
    for model in (
        ModelOptions.of("show_attend_tell", "test", freeze=True),
        ModelOptions.of("show_attend_tell", "paper"),
    ):
        refuses("model.freeze needs a trained encoder: weights must name its file", model=model)
    colored = dataclasses.replace(recipe.data, normalization="imagenet")
    network = ModelOptions.of("show_attend_tell", "test", encoder="VGG19")
    refuses("of the encoder keras must be \"half\"; got 'imagenet'", colored, model=network)
    assert not (tmp_path / "run").exists()


def test_a_picture_of_which_nobody_knew_that_it_is_broken_is_named(captioner, loaded):
    captions = load_split(loaded.recipe.data)
    broken = dataclasses.replace(captions, items=[*captions.items[:-1], b"junk"])
    with pytest.raises(ValueError, match=f"cannot be read: {captions.files[-1]}"):
        encode_images(captioner, broken)


def test_the_tokenizer_is_trained_once(caption_recipe_of, tmp_path, monkeypatch):
    task = task_of(caption_recipe_of())
    task.prepare(tmp_path)
    trained = task.tokenizer
    assert "▁picture" in trained.pieces
    monkeypatch.setattr(captioning, "train_tokenizer", None)  # is not called again
    task.prepare(tmp_path)
    assert task.tokenizer.model == trained.model


def test_a_batch_holds_pictures_or_what_a_frozen_encoder_sees_of_them(caption_recipe_of, tmp_path):
    recipe = caption_recipe_of(
        model=ModelOptions.of("show_attend_tell", "test", encoder=VIT, image_size=20, freeze=True),
        weights=str(FIXTURE),
    )
    recipe = dataclasses.replace(recipe, augment=CaptioningRecipe().augment)
    task = task_of(recipe)
    task.prepare(tmp_path)
    model = task.make_model()
    kernel = model.image_encoder.network.blocks[1].self_attention.query.kernel
    stored = read_weights(FIXTURE)["blocks.1.attn.qkv.weight"]
    np.testing.assert_array_equal(kernel, stored[:12].T)

    inputs, targets, weights = next(iter(task.batches(0)))
    assert set(inputs) == {"features", "target"} and inputs["features"].shape == (24, 25, 12)
    assert targets.shape == weights.shape == inputs["target"].shape
    captions = task.captions["train"]
    images, _ = task.greedy(model).read(tf.constant(captions.items))
    seen = np.asarray(model.encode_image(images / 127.5 - 1))  # by mean and deviation of one half
    for row in inputs["features"].numpy():
        assert np.abs(seen - row).max(axis=(1, 2)).min() < 1e-2
    evaluator = task.evaluator(model)
    np.testing.assert_allclose(
        evaluator.features, encode_images(evaluator.captioner, evaluator.captions)
    )
    assert len(evaluator.features) == len(evaluator.captions) > evaluator.count
    texts = describe(evaluator.captioner, evaluator.features[: evaluator.count])
    samples = evaluator.evaluate().samples
    assert [sample.split("model      ")[1] for sample in samples] == [f"{x}\n" for x in texts]

    task = task_of(caption_recipe_of())
    task.prepare(tmp_path)
    inputs, _, _ = next(iter(task.batches(0)))
    assert set(inputs) == {"image", "target"} and inputs["image"].shape == (24, 32, 32, 3)
    assert task.units_per_batch == pytest.approx(task.data.lengths.sum() / 9)


@pytest.mark.parametrize("weights, path", [("package", "its.pth"), ("lite0.pth", "lite0.pth")])
def test_the_encoder_s_weights_come_from_the_package_or_a_file(
    caption_recipe_of, weights, path, monkeypatch
):
    asked = []
    monkeypatch.setattr(captioning, "packaged_weights", lambda: "its.pth")
    monkeypatch.setattr(captioning, "load_weights", lambda *own, head: asked.append(own))
    encoder = {"kind": "efficientnet_lite0", "stage": 2}
    recipe = caption_recipe_of(
        model=ModelOptions.of("show_attend_tell", "test", encoder=encoder, freeze=True),
        weights=weights,
    )
    model = model_of(recipe)
    assert asked == [(model.image_encoder.network, path)]


def test_with_weights_the_encoder_is_frozen_unless_it_is_said(caption_recipe_of, monkeypatch):
    monkeypatch.setattr(captioning, "packaged_weights", lambda: "its.pth")
    monkeypatch.setattr(captioning, "load_weights", lambda *own, head: None)
    encoder = {"kind": "efficientnet_lite0", "stage": 2}
    for freeze, frozen in (({}, True), ({"freeze": False}, False)):
        own = ModelOptions.of("show_attend_tell", "test", encoder=encoder, **freeze)
        recipe = caption_recipe_of(model=own, weights="package")
        assert model_of(recipe).freeze is frozen


@pytest.mark.parametrize("encoder", ["small", VIT])
def test_another_encoder_takes_the_place_of_the_package_s_by_one_word(encoder, caption_recipe_of):
    own = ModelOptions.of("show_attend_tell", "test", encoder=encoder, image_size=20)
    recipe = caption_recipe_of(model=own, weights="package")
    task_of(recipe)  # is not refused
    assert not model_of(recipe).freeze


def test_behind_a_slash_stands_what_an_encoder_is_cut_from():
    assert encoder_options("vit") == {"kind": "vit"}
    assert encoder_options("vit/b16") == {"kind": "vit", "variant": "b16"}
    assert encoder_options("efficientnet_lite0/6") == {"kind": "efficientnet_lite0", "stage": 6}
    assert encoder_options("keras_hub//presets/mine")["backbone"] == "/presets/mine"
    message = "unknown encoder 'small'; known: efficientnet_lite0, keras_hub, vit"
    with pytest.raises(ValueError, match=message):
        encoder_options("small/3")


def test_a_network_of_keras_is_an_encoder_by_its_name(caption_recipe_of, tmp_path):
    backbone = keras.applications.MobileNetV2(include_top=False, weights=None)
    backbone.save_weights(tmp_path / "own.weights.h5")
    own = ModelOptions.of("show_attend_tell", "test", encoder="MobileNetV2", image_size=64)
    model = model_of(caption_recipe_of(model=own))
    assert model.image_encoder.backbone == "MobileNetV2" and not model.freeze
    recipe = caption_recipe_of(model=own, weights=str(tmp_path / "own.weights.h5"))
    task_of(recipe)  # is not refused
    model = model_of(recipe)
    kernel = model.image_encoder.network.get_layer("Conv1").kernel
    np.testing.assert_array_equal(kernel, backbone.get_layer("Conv1").kernel)
    assert model.freeze and model.grid() == (2, 2)
