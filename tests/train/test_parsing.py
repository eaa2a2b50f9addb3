import dataclasses

import pytest

from tfx_transformer.train.cli import main
from tfx_transformer.train.parsing import parse_train
from tfx_transformer.train.recipe import save_recipe
from tfx_transformer.train.recipes import RECIPES


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_without_options_the_recipe_is_unchanged(name):
    assert parse_train([name]) == (RECIPES[name], f"runs/{name}")


def test_a_model_s_options_come_from_its_constructor():
    recipe, folder = parse_train(
        ["classify_cifar10_swin", "--model.window", "5", "--model.depth", "1", "2", "--folder", "x"]
    )
    assert recipe.model.options == {"drop_path": 0.1, "window": 5, "depth": (1, 2)}
    assert (recipe.model.name, recipe.model.variant, folder) == ("swin", "cifar", "x")
    mixer, _ = parse_train(["classify_cifar10_mixer", "--model.token-mlp-dim", "32"])
    assert mixer.model.options["token_mlp_dim"] == 32
    cnn, _ = parse_train(["classify_cifar10_hybrid", "--model.dims", "8", "16"])
    assert cnn.model.options["dims"] == (8, 16)


def test_another_model_has_its_own_options():
    recipe, _ = parse_train(
        ["classify_cifar10", "--model.name", "swin", "--model.variant", "cifar"]
    )
    assert recipe.model.name == "swin" and recipe.model.options == {}
    with pytest.raises(ValueError, match="unknown option --model.window"):  # a ViT has none
        parse_train(["classify_cifar10", "--model.window", "5"])
    with pytest.raises(SystemExit, match="unknown model 'swim'; known: attention_cnn, bert"):
        main(["train", "classify_cifar10", "--model.name=swim"])


SUGGESTIONS = {
    "--lr": "--optimizer.learning-rate",
    "--optimizer.lr": "--optimizer.learning-rate",
    "--epochs": "--steps",
    "--batch-size": "--data.token-budget",
    "--model.heads": "--model.num-heads",
    "--dropout": "--model.dropout",
    "--vocab_size": "--data.vocab-size",
    "--optimizer.warmpu-steps": "--optimizer.warmup-steps",
}


@pytest.mark.parametrize("flag", SUGGESTIONS)
def test_an_unknown_option_suggests_the_right_one(flag):
    with pytest.raises(SystemExit) as exit:
        main(["train", "translate_multi30k", flag, "3"])
    expected = f"unknown option {flag}; did you mean {SUGGESTIONS[flag]}?"
    assert str(exit.value) == f"tfx-transformer train: {expected}"


def test_an_option_without_a_likeness_leads_to_the_help():
    with pytest.raises(SystemExit, match="unknown option --qqq; see --help"):
        main(["train", "translate_multi30k", "--qqq=3"])
    recipe, _ = parse_train(["translate_multi30k", "--no-jit-compile", "--data.no-joint"])
    assert not recipe.jit_compile and not recipe.data.joint


def test_steps_take_the_place_of_a_time():
    recipe, _ = parse_train(["translate", "--steps", "70", "--model.variant", "small"])
    assert (recipe.steps, recipe.minutes) == (70, None)
    with pytest.raises(ValueError, match="--steps must not be given with --minutes"):
        parse_train(["translate", "--steps", "70", "--minutes", "7"])


def test_none_is_an_option_where_a_constructor_takes_it():
    recipe, _ = parse_train(["caption_flickr8k", "--model.attention", "none"])
    assert recipe.model.options["attention"] is None
    recipe, _ = parse_train(["translate_multi30k", "--model.tie", "none"])
    assert recipe.model.options["tie"] == "none"


def test_decoding_and_augmentation_options_come_from_their_classes():
    recipe, _ = parse_train(
        ["translate_multi30k", "--decoding.min-length", "3", "--decoding.coverage-penalty", "0.2"]
    )
    assert (recipe.decoding.min_length, recipe.decoding.coverage_penalty) == (3, 0.2)
    assert recipe.decoding.width == 5  # the recipe's own
    recipe, _ = parse_train(["classify_digits", "--augment.mixup", "0.3"])
    assert recipe.augment.mixup == 0.3 and recipe.augment.crop == "none"


def test_a_run_is_continued_by_its_folder_alone(tmp_path):
    path = tmp_path / "recipe.json"
    for name, recipe in RECIPES.items():
        stored = dataclasses.replace(recipe, steps=77)
        save_recipe(stored, path)
        assert parse_train(["--resume", str(tmp_path)]) == (stored, str(tmp_path)), name
    recipe, _ = parse_train([f"--resume={tmp_path}", "--steps", "99"])
    assert recipe == dataclasses.replace(stored, steps=99)


def test_a_folder_to_continue_must_hold_a_run(tmp_path):
    with pytest.raises(SystemExit, match="x holds no run: there is no recipe.json"):
        main(["train", "--resume", str(tmp_path / "x")])
    with pytest.raises(SystemExit, match="--resume must be followed by a run folder"):
        main(["train", "--resume", "--steps"])
