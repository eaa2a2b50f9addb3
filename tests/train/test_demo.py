"""The demo on a run that is already finished: it must find nothing in its way."""

import shutil

from tfx_transformer.data import Pairs
from tfx_transformer.train.demo import nearest_neighbor
from tfx_transformer.train.demo import run as demo


def test_the_nearest_neighbor_shares_the_most_words():
    pairs = Pairs("", ["red apple", "green apple", "green old big apple tree"], ["1", "2", "3"])
    assert nearest_neighbor(pairs, ["green big apple", "old green apple tree"]) == ["2", "3"]


def test_the_demo_trains_exports_and_plots(
    run, recipe_of, classify_run, classify_recipe_of, tmp_path, capsys
):
    for name, (folder, _) in (("translator", run), ("classifier", classify_run)):
        shutil.copytree(folder, tmp_path / name / "run")
        (tmp_path / name / "served").mkdir()
    scores = demo(str(tmp_path), recipe_of(), classify_recipe_of())
    shown = capsys.readouterr().out
    assert scores["bleu"] > 60 and f"{scores['nearest']:.1f}" in shown
    assert scores["accuracy"] > 85 and f"{scores['accuracy']:.1f} % right" in shown
    for line in (
        "in a process without this package",
        "BLEU",
        "exact",
        "type your own phrases:",
        "next:",
        f"tfx-transformer serve {tmp_path}/translator/served {tmp_path}/classifier/served",
    ):
        assert line in shown
    for name, picture in (("translator", "alignment"), ("classifier", "rollout")):
        assert (tmp_path / name / "served/saved_model.pb").exists()
        assert (tmp_path / name / f"pictures/{picture}.png").exists()
    assert (tmp_path / "classifier/pictures/predictions.png").exists()
    assert (tmp_path / "classifier/examples/digit.png").exists()
