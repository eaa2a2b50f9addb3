import json
import re
import shutil

import numpy as np
import pytest

from tfx_transformer.train.run_folder import load_run
from tfx_transformer.train.tasks.translation.compare import compare, group_by_length, make_table


def test_groups_are_of_growing_length_and_about_equal():
    lengths = np.random.default_rng(0).integers(1, 40, 500)
    groups = group_by_length(lengths)
    assert sorted(np.concatenate(groups)) == list(range(500))
    assert len(groups) == 5 and all(80 < len(group) < 120 for group in groups)
    spans = [lengths[group] for group in groups]
    assert all(max(a) < min(b) for a, b in zip(spans, spans[1:], strict=False))


def test_sentences_of_one_length_make_one_group():
    groups = group_by_length(np.array([3, 3, 3, 3]))
    assert [list(group) for group in groups] == [[0, 1, 2, 3]]


def test_runs_stand_side_by_side(run, tmp_path):
    folder, scores = run
    shutil.copytree(folder, tmp_path / "twin")
    table, picture = compare([load_run(folder), load_run(tmp_path / "twin")], tmp_path / "to")
    assert table == (tmp_path / "to/comparison.md").read_text()
    assert picture.stat().st_size > 3000
    head, rule, first, second = table.splitlines()
    columns = dict(zip(head.split(" | "), first.split(" | "), strict=True))
    assert columns["BLEU"] == f"{scores['bleu']:.1f}"
    assert float(columns["perplexity"]) == pytest.approx(scores["perplexity"], abs=0.006)
    assert re.search(r"\| BLEU, \d+(–\d+)? words \|$", head)
    assert first.startswith(f"| {folder.name} |") and second.startswith("| twin |")


def test_runs_of_different_test_sets_are_refused(run, tmp_path):
    folder, _ = run
    shutil.copytree(folder, tmp_path / "other")
    recipe = json.loads((folder / "recipe.json").read_text())
    recipe["data"]["test"] = ["other.en", "other.de"]
    (tmp_path / "other/recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(ValueError, match="all runs must have one test set; .* other.en other.de"):
        compare([load_run(folder), load_run(tmp_path / "other")], tmp_path / "to")
    recipe["data"] |= {"train": ["embedded:emoji/en-de"], "test": []}  # of which it is a part
    (tmp_path / "other/recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(ValueError, match="has embedded:emoji/en-de"):
        compare([load_run(folder), load_run(tmp_path / "other")], tmp_path / "to")
    with pytest.raises(ValueError, match="runs must have folders of different names; got (.+) \\1"):
        compare([load_run(folder), load_run(folder)], tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_a_table_has_a_line_for_each_row():
    table = make_table({"a": {"BLEU": "1.0", "chrF": "2.0"}, "b": {"BLEU": "3.0", "chrF": "4.0"}})
    assert table.splitlines() == [
        "| model | BLEU | chrF |",
        "| --- | ---: | ---: |",
        "| a | 1.0 | 2.0 |",
        "| b | 3.0 | 4.0 |",
    ]
