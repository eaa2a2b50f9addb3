import json

import pytest

from tfx_transformer.train.evaluation import evaluate
from tfx_transformer.train.searching import Search


def test_it_is_evaluated_on_other_data_too(run, corpus):
    before = (run[0] / "test.json").read_text()
    scores = evaluate(run[0], (str(corpus / "val.en"), str(corpus / "val.de")))
    assert scores["sentences"] == 20 and scores["bleu"] > 60
    assert (run[0] / "test.json").read_text() == before


def test_another_search_is_not_written_as_the_recipe_s(run):
    before = json.loads((run[0] / "test.json").read_text())
    scores = evaluate(run[0], search=Search(max_length=3))
    assert scores["length_ratio"] < 0.9 < before["length_ratio"]
    assert json.loads((run[0] / "test.json").read_text()) == before


def test_another_search_for_captions_is_not_written_as_the_recipe_s(caption_run):
    before = json.loads((caption_run[0] / "test.json").read_text())
    scores = evaluate(caption_run[0], search=Search(kind="greedy", max_length=2))
    assert scores["bleu_4"] < 50 < before["bleu_4"] and scores["pictures"] == before["pictures"]
    assert json.loads((caption_run[0] / "test.json").read_text()) == before


def test_a_classifier_has_nothing_to_search_for(classify_run):
    with pytest.raises(ValueError, match="a classifier searches for nothing; got Search"):
        evaluate(classify_run[0], search=Search(width=3))


def test_a_classifier_has_one_source(classify_run):
    with pytest.raises(ValueError, match="data of a classifier must be one source; got a b"):
        evaluate(classify_run[0], ("a", "b"))
