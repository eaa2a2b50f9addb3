"""The demo on a run that is already finished: it must find nothing in its way."""

import shutil
from pathlib import Path

from tfx_transformer.data import Pairs
from tfx_transformer.train.demo import nearest_neighbour
from tfx_transformer.train.demo import run as demo


def test_the_nearest_neighbour_shares_the_most_words():
    pairs = Pairs("", ["red apple", "green apple", "green old big apple tree"], ["1", "2", "3"])
    assert nearest_neighbour(pairs, ["green big apple", "old green apple tree"]) == ["2", "3"]


def test_the_demo_trains_serves_draws_and_tells(run, recipe_of, tmp_path, capsys):
    shutil.copytree(run[0], tmp_path / "run")
    (tmp_path / "served").mkdir()
    scores = demo(str(tmp_path), recipe=recipe_of())
    told = capsys.readouterr().out
    assert scores["bleu"] > 60 and f"{scores['nearest']:.1f}" in told
    for line in ("in a process without this package", "BLEU", "next:"):
        assert line in told
    assert (Path(tmp_path) / "served/saved_model.pb").exists()
    assert (Path(tmp_path) / "pictures/alignment.png").exists()
