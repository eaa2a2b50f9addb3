"""What is true of every recipe file; a new recipe is tested here because it is in its folder."""

import dataclasses
import inspect

import pytest

from tfx_transformer.models import MODELS
from tfx_transformer.train.options import model_options
from tfx_transformer.train.recipes import MODULES, RECIPES
from tfx_transformer.train.tasks import load_task

SIZED = [name for name in sorted(RECIPES) if RECIPES[name].model.is_sized]


class Tokens:
    vocab_size = 100


@pytest.fixture(params=sorted(RECIPES))
def name(request):
    return request.param


def test_the_docstring_has_a_summary_and_says_how_to_run_it(name):
    text = MODULES[name].__doc__
    summary, blank = text.split("\n")[:2]
    assert blank == "" and len(summary) <= 95 and summary.endswith(".")
    for word in ("Run:", "Time:", "Result:", f"tfx-transformer train {name}"):
        assert word in text
    assert ("not measured" in summary) == ("not measured" in text.partition("Result:")[2])


def test_its_options_are_those_of_its_model(name):
    recipe = RECIPES[name]
    assert recipe.optimizer.warmup_steps < recipe.steps
    parameters = inspect.signature(MODELS[recipe.model.name]).parameters
    assert set(recipe.model.options) <= set(parameters)
    assert {*recipe.set_by_task} & model_options(recipe.model.name).keys()
    assert not {*recipe.set_by_task} & recipe.model.options.keys()


@pytest.mark.parametrize("name", [n for n in SIZED if "imagenet" not in n])
def test_its_model_can_be_made(name):
    recipe = RECIPES[name]
    if "freeze" in inspect.signature(MODELS[recipe.model.name]).parameters:  # without a file
        model = recipe.model.replace(freeze=False)
        recipe = dataclasses.replace(recipe, weights="", model=model)
    task = load_task(recipe.task)(recipe)
    task.tokenizer, task.tokenizers = Tokens, (Tokens, Tokens)
    task.class_names = [f"class {i}" for i in range(10)]
    assert task.make_model().count_params() > 0
