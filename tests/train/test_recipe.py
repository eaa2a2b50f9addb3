import dataclasses
import json
import random
import re

import pytest

from tfx_transformer.train import run
from tfx_transformer.train.parsing import parse_train
from tfx_transformer.train.recipe import ModelOptions, absolute_paths, load_recipe, save_recipe
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.run_folder import changes
from tfx_transformer.train.tasks import TASKS
from tfx_transformer.train.tasks.captioning import CaptioningData, CaptioningRecipe


def test_a_recipe_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECIPES["translate_emoji"].steps = 1


def test_model_options_are_given_by_name_and_changed_by_name():
    model = ModelOptions.of("transformer", "small", dropout=0.3, depth=2)
    assert (model.name, model.variant) == ("transformer", "small")
    assert model.replace(depth=4).options == {"dropout": 0.3, "depth": 4}
    assert model.options == {"dropout": 0.3, "depth": 2}


WRONG = {
    "--steps 0": "--steps must be a whole number above zero; got --steps=0",
    "--eval-steps -1": "--eval-steps must be a whole number above zero",
    "--label-smoothing 1": "--label-smoothing must lie in 0 <= --label-smoothing < 1",
    "--optimizer.learning-rate 0": "--optimizer.learning-rate must be above zero",
    "--optimizer.clip-norm -1": "--optimizer.clip-norm must be above zero",
    "--optimizer.schedule cosine --optimizer.warmup-steps 9 --steps 9": (
        "--optimizer.warmup-steps must be below --steps; got 9"
    ),
    "--data.vocab-size 0": "--data.vocab-size must be a whole number above zero",
    "--data.train none.tsv": "--data.train must name a file or folder; there is no none.tsv",
    "--data.train": "--data.train must name a source",
}


def test_without_a_time_a_model_needs_sizes():
    recipe, _ = parse_train(["translate", "--steps", "70", "--data.train", "embedded:cldr/en-ko"])
    with pytest.raises(ValueError, match="--model.variant is needed, or --minutes"):
        recipe.check()
    recipe, _ = parse_train(["translate_multi30k", "--data.train", "a.en,a.de"])
    with pytest.raises(FileNotFoundError, match="there is no a.en$"):
        recipe.check()


@pytest.mark.parametrize("arguments", WRONG)
def test_a_wrong_option_is_named_before_anything_is_read(arguments):
    recipe, _ = parse_train(["translate_emoji", *arguments.split()])
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(WRONG[arguments])):
        recipe.check()


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_a_recipe_is_restored_from_its_file(name, tmp_path):
    save_recipe(RECIPES[name], tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == RECIPES[name]


def test_nested_options_and_lists_are_restored(tmp_path):
    encoder = {"kind": "small", "dims": (4, 5), "strides": (2, 2)}
    model = ModelOptions.of("show_attend_tell", "test", encoder=encoder)
    recipe = CaptioningRecipe(data=CaptioningData("photos", "x.csv"), model=model)
    save_recipe(recipe, tmp_path / "recipe.json")
    assert load_recipe(tmp_path / "recipe.json") == recipe
    assert str(recipe.data) == "photos x.csv" and str(CaptioningData("tfds:coco")) == "tfds:coco"


def random_value(rng, depth=0):
    """A value as a recipe may have it: plain, or a list, tuple or dict of such values."""
    kinds = ["plain"] * 3 + ["list", "tuple", "dict"] * (depth < 3)
    kind = rng.choice(kinds)
    if kind == "plain":
        return rng.choice([None, True, 0, -3, 1e-9, 0.1, "", "é/x", "none"])
    values = [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    named = {f"option_{i}": value for i, value in enumerate(values)}
    return {"list": values, "tuple": tuple(values), "dict": named}[kind]


def test_any_options_of_a_model_are_restored(tmp_path):
    path, recipe, rng = tmp_path / "recipe.json", RECIPES["translate_emoji"], random.Random(0)
    for _ in range(200):
        options = {f"option_{i}": random_value(rng) for i in range(3)}
        changed = dataclasses.replace(recipe, model=ModelOptions("transformer", None, options))
        save_recipe(changed, path)
        assert load_recipe(path) == changed and changes(changed, tmp_path) == []


def test_a_run_with_a_list_is_resumed(caption_recipe_of, tmp_path, monkeypatch):
    """Through `train`, up to the first step."""
    encoder = {"kind": "small", "dims": [4, 6], "strides": [2, 2]}
    recipe = caption_recipe_of(steps=2, eval_steps=2, average=1, precision="float32")
    recipe = dataclasses.replace(recipe, model=recipe.model.replace(encoder=encoder))
    save_recipe(absolute_paths(recipe), tmp_path / "recipe.json")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/step_00000001.npz").touch()
    started = []
    monkeypatch.setattr(run, "train_task", lambda task, *_: started.append(task.recipe))
    monkeypatch.setattr(run, "evaluate", lambda folder, workers: {})
    run.train(recipe, tmp_path)
    assert started == [load_recipe(tmp_path / "recipe.json")]


@pytest.mark.parametrize(
    "arguments",
    [
        *([name] for name in sorted(RECIPES)),
        [
            "classify_cifar10",
            "--model.name",
            "swin",
            "--model.variant",
            "t",
            "--model.depth",
            "1",
            "2",
        ],
        ["translate_emoji", "--data.train", "a.en", "a.de", "--optimizer.clip-norm", "0.5"],
        ["translate_emoji", "--decoding.forbidden", "3", "4", "--optimizer.clip-norm", "None"],
        ["caption_flickr8k", "--model.attention", "none", "--model.encoder", "vit/ti16"],
    ],
    ids=" ".join,
)
def test_a_command_line_is_resumed_without_its_options(arguments, tmp_path):
    recipe, _ = parse_train([*arguments, "--folder", str(tmp_path)])
    save_recipe(recipe, tmp_path / "recipe.json")
    assert parse_train(["--resume", str(tmp_path)]) == (recipe, str(tmp_path))
    assert changes(parse_train([*arguments])[0], tmp_path) == []


def test_a_file_names_its_task(tmp_path):
    path = tmp_path / "recipe.json"
    for recipe in RECIPES.values():
        save_recipe(recipe, path)
        assert TASKS[json.loads(path.read_text())["task"]] is type(recipe)


def test_a_field_that_is_not_in_the_file_has_its_default(tmp_path):
    path, recipe = tmp_path / "recipe.json", RECIPES["translate_emoji"]
    save_recipe(dataclasses.replace(recipe, patience=7), path)
    stored = json.loads(path.read_text())
    stored.pop("patience")
    path.write_text(json.dumps(stored))
    assert load_recipe(path) == dataclasses.replace(recipe, patience=0)


def test_a_run_folder_of_an_older_version_is_refused_in_one_line(tmp_path):
    (tmp_path / "recipe.json").write_text('{"kind": "translate", "steps": 3}')
    with pytest.raises(ValueError, match="was written by an older version") as error:
        load_recipe(tmp_path / "recipe.json")
    assert "\n" not in str(error.value) and str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"steps": "many"},
        {"steps": True},
        {"seed": 0.5},
        {"optimizer": {"learning_rate": None}},
        {"optimizer": []},
        {"precision": "float8"},
        {"model": {"name": 3}},
        {"relative_paths": 7},
        {"data": {"nothing": 1}},
        {"nothing": 1},
    ],
)
def test_a_recipe_with_wrong_types_is_refused_in_one_line(changes, tmp_path):
    path = tmp_path / "recipe.json"
    save_recipe(RECIPES["translate_emoji"], path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match=r"recipe.json is damaged or not supported: [^\n]*$"):
        load_recipe(path)
