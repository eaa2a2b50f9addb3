"""What every task promises, and that nothing outside of train/tasks knows a list of tasks."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

from tfx_transformer.pipelines import PIPELINES
from tfx_transformer.train.cli import COMMANDS
from tfx_transformer.train.recipe import Recipe
from tfx_transformer.train.recipes import RECIPES
from tfx_transformer.train.tasks import TASKS, load_commands, load_task
from tfx_transformer.train.tasks.base import Evaluation, Evaluator, Task, layer_index, refuse, timed

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "train/tasks"


def test_every_folder_is_a_task():
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert folders == set(TASKS) >= {recipe.task for recipe in RECIPES.values()}
    assert list(TASKS) == sorted(TASKS)


@pytest.mark.parametrize("name", TASKS)
def test_a_task_has_what_the_commands_ask_for(name):
    task, recipe = load_task(name), TASKS[name]
    assert issubclass(task, Task) and not inspect.isabstract(task)
    assert issubclass(recipe, Recipe) and recipe.task == name
    assert task.noun and task.metric and task.unit and task.kind in ("", *PIPELINES)
    plots = importlib.import_module(f"tfx_transformer.train.tasks.{name}.plots")
    parameters = list(inspect.signature(plots.plot).parameters)
    assert parameters[:5] == ["run", "what", "path", "layer", "word"]
    assert task.__doc__ != Task.__doc__


def test_every_kind_of_pipeline_belongs_to_a_task():
    kinds = [load_task(name).kind for name in TASKS]
    assert set(PIPELINES) <= set(kinds)


def test_the_commands_of_tasks_are_commands():
    commands = load_commands()
    assert {"caption", "classify", "classify-text", "generate", "translate"} <= set(commands)
    assert commands.items() <= COMMANDS.items()


def sources():
    for folder in ("tfx_transformer", "models", "train"):
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith(("train/tasks/", "train/recipes/")):
                yield pytest.param(path, id=name)


@pytest.mark.parametrize("path", list(sources()))
def test_no_other_file_names_a_task_or_asks_for_its_class(path):
    tree = ast.parse(path.read_text())
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not strings & TASKS.keys(), "names a task"
    classes = "|".join([*(kind.__name__ for kind in TASKS.values()), r"\w+(Run|Task)"])
    calls = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    pattern = rf"isinstance\(.*\b({classes})\b"
    assert not [call for call in calls if re.match(pattern, call)], "asks for the class of a task"


def test_an_evaluator_writes_samples_and_prints_a_line(tmp_path, capsys):
    class Fixed(Evaluator):
        suffix, shown = ".md", 1

        def evaluate(self, whole=False):
            return Evaluation({"score": 1.0}, "score 1", ["a sample", "another"])

    Fixed().report(Fixed().evaluate(), 1234, tmp_path / "samples")
    assert capsys.readouterr().out == "step 1,234: score 1\na sample\n"
    assert (tmp_path / "samples/step_00001234.md").read_text() == "a sample\nanother"


def test_an_option_is_refused_by_its_name():
    refuse("classifier", {})
    with pytest.raises(ValueError, match="a classifier has no option width; got width=3"):
        refuse("classifier", {"width": 3})


def test_a_function_is_timed():
    result, seconds = timed(lambda: 7)
    assert result == 7 and 0 <= seconds < 1


def test_layers_count_from_one_and_from_the_last():
    layers = [1, 2, 3, -1, -2, -3]
    assert [layer_index(layer, 3, "block") for layer in layers] == [0, 1, 2, 2, 1, 0]
    for layer in (0, 4, -4):
        message = f"layer must be 1 to 3, or -1 for the last block; got layer={layer}"
        with pytest.raises(ValueError, match=message):
            layer_index(layer, 3, "block")
