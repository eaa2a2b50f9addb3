import gzip
import math
from pathlib import Path

import pytest

from tfx_transformer.metrics import (
    caption_scores,
    check_counts,
    perplexity,
    tokenise,
    translation_scores,
    words,
)

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


# captions

SAID = ["a red cat sits here now", "Dogs run, run!"]
KNOWN = [["A red cat sits there .", "the cat sits here now, today"], ["dogs run fast today"]]


def test_the_bleu_of_captions_is_counted_by_hand():
    """Against two references and one; what comes twice is right as often as a reference has it."""
    right = [6 + 2, 5 + 1, 4 + 0, 2 + 0]  # sequences of 1 to 4 words that some reference has too
    all_said = [6 + 3, 5 + 2, 4 + 1, 3 + 0]
    too_short = math.exp(1 - (6 + 4) / (6 + 3))  # by the references of the nearest lengths
    scores = caption_scores(SAID, KNOWN)
    for order in range(1, 5):
        shares = [a / b for a, b in zip(right[:order], all_said[:order], strict=True)]
        expected = 100 * too_short * math.prod(shares) ** (1 / order)
        assert scores[f"bleu_{order}"] == pytest.approx(expected)


def test_more_references_never_hurt_and_their_order_is_nothing():
    scores = caption_scores(SAID, KNOWN)
    turned = caption_scores(SAID, [KNOWN[0][::-1], KNOWN[1]])
    assert turned == pytest.approx(scores)
    fewer = caption_scores(SAID, [KNOWN[0][:1], KNOWN[1]])
    assert all(fewer[name] < scores[name] for name in scores)


def test_case_and_punctuation_of_captions_count_for_chrf_alone():
    scores = caption_scores(["A Red, red CAT sits"], [["a red red cat sits !", "no"]])
    assert all(scores[f"bleu_{order}"] == pytest.approx(100) for order in range(1, 5))
    assert scores["chrf"] < 80
    assert caption_scores(["a red cat"], [["no", "a red cat"]])["chrf"] == pytest.approx(100)


def test_words_are_tokens_with_a_letter_or_a_number():
    assert words("A dog's tail, 3.5 m long — OK? (two-tone) „Hallo!“ ...") == (
        "a dog s tail 3.5 m long ok two-tone hallo"
    )
    assert words("!? ...") == "" and words("Zwei, 2 ÄPFEL") == "zwei 2 äpfel"


def test_captions_that_cannot_be_scored_are_an_error():
    with pytest.raises(ValueError, match="needs its reference; got 1 and 2"):
        caption_scores(["a"], [["a"], ["b"]])
    with pytest.raises(ValueError, match="got no sentences"):
        check_counts([], [])
    with pytest.raises(ValueError, match="needs a reference or more; picture 1 has none"):
        caption_scores(["a", "b"], [["a"], []])
    assert caption_scores([""], [["a b c d"]])["bleu_4"] == 0


def test_a_fair_coin_has_perplexity_two():
    assert perplexity(10 * math.log(0.5), 10) == pytest.approx(2)
