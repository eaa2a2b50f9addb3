"""Options of a server."""

import re
from pathlib import Path

import pytest

from tfx_transformer.serving.options import RayOptions, ServingOptions, name_folders


def test_allowed_batch_sizes_end_with_the_maximum():
    assert ServingOptions(max_batch_size=1).allowed_batch_sizes == [1]
    assert ServingOptions(max_batch_size=8).allowed_batch_sizes == [1, 2, 4, 8]
    assert ServingOptions(max_batch_size=12).allowed_batch_sizes == [1, 2, 4, 8, 12]


@pytest.mark.parametrize(
    "name, value",
    [("max_batch_size", 0), ("max_waiting", 0), ("deadline", 0.0), ("poll", -1.0)],
)
def test_wrong_values_are_named(name, value):
    with pytest.raises(ValueError, match=f"{name}"):
        ServingOptions(**{name: value})


@pytest.mark.parametrize(
    "options",
    [{"replicas": 0}, {"num_cpus": 0.0}, {"replicas": 3, "max_replicas": 2}],
    ids=lambda options: list(options)[-1],
)
def test_wrong_numbers_of_replicas_are_named(options):
    with pytest.raises(ValueError, match=list(options)[-1]):
        RayOptions(**options)


@pytest.fixture(autouse=True)
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def make(*folders):
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize(
    "argument, name",
    [
        ("runs/demo/translator/served", "translator"),
        ("runs/demo/classifier/run/", "classifier"),
        ("models/photos/3", "photos"),
        ("models/photos/served/12", "photos"),
        ("models/photos", "photos"),
        ("a=models/photos", "a"),
        ("models/a=b", "a=b"),
    ],
)
def test_a_folder_has_its_own_name_or_that_of_its_parent(argument, name):
    folder = argument if argument == "models/a=b" else argument.partition("=")[2] or argument
    make(folder)
    assert name_folders([argument]) == {name: Path(folder)}


def test_the_current_folder_has_a_name(tmp_path, monkeypatch):
    make("mt/served")
    monkeypatch.chdir("mt/served")
    assert name_folders(["."]) == {"mt": Path(".")}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "models must name at least one folder"),
        (["missing"], "models must name folders; there is no missing"),
        (["a=missing"], "models must name folders; there is no missing"),
        (["=a/served"], "name must have no / and no :; got ''"),
        (["x:y=a/served"], "name must have no / and no :; got 'x:y'"),
        (["a/served", "a=b/served"], "a/served and b/served are both a: write NAME=FOLDER"),
    ],
)
def test_unclear_names_are_refused(arguments, message):
    make("a/served", "b/served")
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(message)):
        name_folders(arguments)
