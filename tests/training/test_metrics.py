import gzip
import math
from pathlib import Path

import pytest

from tfx_transformer.training.metrics import (
    caption_scores,
    check_counts,
    perplexity,
    tokenize,
    translation_scores,
    words,
)

MULTI30K = Path(__file__).parents[3] / "shared/data/multi30k/test_2016_flickr.de.gz"


def test_a_perfect_translation_scores_100():
    texts = ["ein Mann fährt Fahrrad .", "zwei Hunde spielen im Schnee ."]
    scores = translation_scores(texts, texts)
    assert scores["bleu"] == scores["bleu_tokenized"] == pytest.approx(100)
    assert scores["chrf"] == pytest.approx(100) and scores["length_ratio"] == 1
    assert "tok:13a" in scores["signature"] and "case:mixed" in scores["signature"]


def test_case_counts_only_in_the_cased_score():
    scores = translation_scores(["ein mann fährt fahrrad"], ["Ein Mann fährt Fahrrad"])
    assert scores["bleu"] < 50 and scores["bleu_tokenized"] == pytest.approx(100)


def test_tokens_are_lower_case_with_punctuation_separated():
    assert tokenize("Ein Mann, 3.5 m groß, sagt: „Hallo!“") == (
        'ein mann , 3.5 m groß , sagt : " hallo ! "'
    )


@pytest.mark.skipif(not MULTI30K.exists(), reason="needs the files of Multi30k")
def test_multi30k_has_as_many_tokens_as_papers_count():
    lines = gzip.decompress(MULTI30K.read_bytes()).decode().splitlines()
    assert sum(len(tokenize(line).split()) for line in lines) == 12_103


def test_a_short_translation_has_a_small_length_ratio():
    assert translation_scores(["a b"], ["a b c d"])["length_ratio"] == 0.5


def test_exact_matches_are_counted_in_percent():
    texts, references = ["a b", "c", "D", "e f g"], ["a b", "c d", "d", "e f"]
    assert translation_scores(texts, references)["exact_match"] == 25


def test_missing_translations_and_references_are_errors():
    with pytest.raises(ValueError, match="needs its reference; got 1 and 2"):
        translation_scores(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="got no sentences"):
        translation_scores([], [])


# captions

HYPOTHESES = ["a red cat sits here now", "Dogs run, run!"]
REFERENCES = [["A red cat sits there .", "the cat sits here now, today"], ["dogs run fast today"]]


def test_the_bleu_of_captions_is_the_definition():
    """With two references and one; repeated n-grams count as often as a reference has them."""
    correct = [6 + 2, 5 + 1, 4 + 0, 2 + 0]  # n-grams of 1 to 4 words that are in a reference
    total = [6 + 3, 5 + 2, 4 + 1, 3 + 0]
    brevity = math.exp(1 - (6 + 4) / (6 + 3))  # the references of the nearest lengths
    scores = caption_scores(HYPOTHESES, REFERENCES)
    for order in range(1, 5):
        precisions = [a / b for a, b in zip(correct[:order], total[:order], strict=True)]
        expected = 100 * brevity * math.prod(precisions) ** (1 / order)
        assert scores[f"bleu_{order}"] == pytest.approx(expected)


def test_more_references_help_and_their_order_does_not_matter():
    scores = caption_scores(HYPOTHESES, REFERENCES)
    reordered = caption_scores(HYPOTHESES, [REFERENCES[0][::-1], REFERENCES[1]])
    assert reordered == pytest.approx(scores)
    fewer = caption_scores(HYPOTHESES, [REFERENCES[0][:1], REFERENCES[1]])
    assert all(fewer[name] < scores[name] for name in scores)


def test_case_and_punctuation_of_captions_count_only_for_chrf():
    scores = caption_scores(["A Red, red CAT sits"], [["a red red cat sits !", "no"]])
    assert all(scores[f"bleu_{order}"] == pytest.approx(100) for order in range(1, 5))
    assert scores["chrf"] < 80
    assert caption_scores(["a red cat"], [["no", "a red cat"]])["chrf"] == pytest.approx(100)


def test_words_are_tokens_with_a_letter_or_a_number():
    assert words("A dog's tail, 3.5 m long — OK? (two-tone) „Hallo!“ ...") == (
        "a dog s tail 3.5 m long ok two-tone hallo"
    )
    assert words("!? ...") == "" and words("Zwei, 2 ÄPFEL") == "zwei 2 äpfel"


def test_missing_captions_and_references_are_errors():
    with pytest.raises(ValueError, match="needs its reference; got 1 and 2"):
        caption_scores(["a"], [["a"], ["b"]])
    with pytest.raises(ValueError, match="got no sentences"):
        check_counts([], [])
    with pytest.raises(ValueError, match="needs at least one reference; image 1 has none"):
        caption_scores(["a", "b"], [["a"], []])
    assert caption_scores([""], [["a b c d"]])["bleu_4"] == 0


def test_a_fair_coin_has_perplexity_two():
    assert perplexity(10 * math.log(0.5), 10) == pytest.approx(2)
