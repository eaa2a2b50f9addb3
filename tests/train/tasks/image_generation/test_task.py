"""Generation of images: a short run on scenes and on files, its scores, export and errors."""

import dataclasses
import io
import json

import numpy as np
import pytest
from PIL import Image

from tfx_transformer.data.captions.scenes import make_scenes
from tfx_transformer.export import load
from tfx_transformer.train.cli import main
from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions
from tfx_transformer.train.run import evaluate, train
from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.image_generation.task import (
    ImageGenerationTask,
    judge_all,
    load_split,
)

ATTRIBUTES = ["right", "count", "shape", "color", "size", "relation"]


def test_a_run_is_scored_by_attribute(draw_run):
    folder, scores = draw_run
    assert set(scores) == {"log_prob", "images", "reconstructed", *ATTRIBUTES, "images_per_second"}
    assert scores["images"] == 40 and all(0 <= scores[name] <= 100 for name in ATTRIBUTES)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [20, 40]
    assert lines[1]["log_prob"] > lines[0]["log_prob"] > -np.log(5)  # of five codes
    assert (folder / "tokenizer/image.keras").exists() and (
        folder / "tokenizer/text.model"
    ).exists()


def test_the_program_counts_right_pictures():
    texts, images = make_scenes("test", 4)
    swapped = [images[0], images[1], np.zeros_like(images[2]), images[3]]
    scores, lines = judge_all(swapped, texts)
    assert lines[2] == f"{texts[2]}: count, shape, color, size, relation"
    assert lines[3] == f"{texts[3]}: right"
    assert scores["right"] == 75 and scores["count"] == scores["shape"] == 75


def test_a_loaded_run_scores_as_it_did_and_takes_options(draw_run):
    folder, scores = draw_run
    again = evaluate(folder, ["embedded:scenes/40"])
    for name in ("log_prob", *ATTRIBUTES):
        assert again[name] == pytest.approx(scores[name], abs=1e-4)
    with pytest.raises(ValueError, match="the decoder sample has no option width"):
        evaluate(folder, width=3)


def test_an_export_draws_what_the_run_draws(draw_run, tmp_path, capsys):
    folder, _ = draw_run
    main(["export", str(folder), "--to", str(tmp_path / "export"), "--kind", "greedy"])
    exported = load(tmp_path / "export", "text_to_image")
    drawn = load_run(folder).pipeline(kind="greedy")("a red circle")
    assert exported("a red circle") == drawn
    assert np.array(Image.open(io.BytesIO(drawn))).shape == (32, 32, 3)
    assert "`image_bytes` are PNG files" in (tmp_path / "export/README.md").read_text()


def test_a_continued_run_is_the_same(draw_run, draw_recipe_of, tmp_path):
    folder, _ = draw_run
    train(draw_recipe_of(steps=20), tmp_path / "run")
    train(draw_recipe_of(), tmp_path / "run")
    name = "checkpoints/step_00000040.npz"
    with np.load(folder / name) as first, np.load(tmp_path / "run" / name) as second:
        assert set(first) == set(second)
        for key in first:
            np.testing.assert_array_equal(first[key], second[key], err_msg=key)


def test_own_pictures_with_captions_are_learned(pictures, captions, draw_recipe_of, tmp_path):
    recipe = draw_recipe_of(steps=4, eval_steps=4)
    data = dataclasses.replace(
        recipe.data, images=str(pictures), captions=str(captions), vocab_size=60, max_length=8
    )
    scores = train(dataclasses.replace(recipe, data=data), tmp_path / "run")
    assert set(scores) == {"log_prob", "images"} and scores["images"] > 5
    task = load_run(tmp_path / "run").task
    assert task.read_images(load_split(data, "test")).shape[1:] == (32, 32, 3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"model": ModelOptions.of("dalle", dim=10, depth=1, num_heads=3, mlp_dim=4)}, "num_heads"),
        ({"model": ModelOptions("dalle")}, "--model.variant is needed"),
        (
            {"decoding": DecodingOptions(kind="sample", temperature=0.0)},
            "temperature must be above",
        ),
    ],
)
def test_wrong_options_are_found_early(options, message, draw_recipe_of):
    with pytest.raises(ValueError, match=message):
        ImageGenerationTask(draw_recipe_of(**options)).check()


def test_splits_are_all_named_or_none(draw_recipe_of, tmp_path):
    recipe = draw_recipe_of()
    data = dataclasses.replace(recipe.data, train="names.txt")
    with pytest.raises(ValueError, match="must all name a file, or none of them; got train"):
        ImageGenerationTask(dataclasses.replace(recipe, data=data)).check()


def test_a_patch_that_does_not_fit_is_found_early(draw_recipe_of):
    recipe = draw_recipe_of()
    own = dataclasses.replace(recipe.image_tokenizer, patch_size=5)
    with pytest.raises(ValueError, match="patch_size must"):
        ImageGenerationTask(dataclasses.replace(recipe, image_tokenizer=own)).check()
