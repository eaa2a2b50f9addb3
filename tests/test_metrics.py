import gzip
import math
from pathlib import Path

import pytest

from tfx_transformer.metrics import perplexity, tokenise, translation_scores

MULTI30K = Path(__file__).parents[2] / "shared/data/multi30k/test_2016_flickr.de.gz"


def test_a_perfect_translation_has_all_points():
    texts = ["ein Mann fährt Fahrrad .", "zwei Hunde spielen im Schnee ."]
    scores = translation_scores(texts, texts)
    assert scores["bleu"] == scores["bleu_tokenised"] == pytest.approx(100)
    assert scores["chrf"] == pytest.approx(100) and scores["length_ratio"] == 1
    assert "tok:13a" in scores["signature"] and "case:mixed" in scores["signature"]


def test_case_counts_only_in_the_cased_score():
    scores = translation_scores(["ein mann fährt fahrrad"], ["Ein Mann fährt Fahrrad"])
    assert scores["bleu"] < 50 and scores["bleu_tokenised"] == pytest.approx(100)


def test_tokens_are_lower_case_with_punctuation_apart():
    assert tokenise("Ein Mann, 3.5 m groß, sagt: „Hallo!“") == (
        'ein mann , 3.5 m groß , sagt : " hallo ! "'
    )


@pytest.mark.skipif(not MULTI30K.exists(), reason="needs the files of Multi30k")
def test_multi30k_has_as_many_tokens_as_papers_count():
    lines = gzip.decompress(MULTI30K.read_bytes()).decode().splitlines()
    assert sum(len(tokenise(line).split()) for line in lines) == 12_103


def test_a_short_translation_shows_in_the_length():
    assert translation_scores(["a b"], ["a b c d"])["length_ratio"] == 0.5


def test_what_cannot_be_scored_is_an_error():
    with pytest.raises(ValueError, match="needs its reference; got 1 and 2"):
        translation_scores(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="got no sentences"):
        translation_scores([], [])


def test_a_fair_coin_has_perplexity_two():
    assert perplexity(10 * math.log(0.5), 10) == pytest.approx(2)
