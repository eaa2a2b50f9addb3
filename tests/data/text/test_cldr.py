"""The embedded phrases: their patterns, their splits, and one translation for each."""

import re
from collections import defaultdict
from datetime import date
from itertools import combinations

import pytest

from tfx_transformer.data.splits import SPLITS
from tfx_transformer.data.text.cldr import _locale, cldr_pairs, cldr_phrases

MONTHS = "January February March April May June July August September October November December"
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"


def phrases(source, target):
    return [pair for split in SPLITS for pair in cldr_pairs(source, target, split)]


def test_dates_are_real_days_in_the_order_of_each_language():
    found, months, days = 0, MONTHS.split(), DAYS.split()
    for english, korean in phrases("en", "ko"):
        match = re.fullmatch(r"(\w+day), (\w+) (\d+), (\d{4})", english)
        if match:
            month, day, year = months.index(match[2]) + 1, int(match[3]), int(match[4])
            assert (
                korean == f"{year}년 {month}월 {day}일 {'월화수목금토일'[days.index(match[1])]}요일"
            )
            assert days[date(year, month, day).weekday()] == match[1]
            found += 1
    assert found > 100


@pytest.mark.parametrize(
    ("english", "korean"),
    [
        (r"in (\d+) weeks?", r"\1주 후"),
        (r"(\d+) weeks? ago", r"\1주 전"),
        (r"([\d.]+) kilometers? per hour", r"시속 \1킬로미터"),
        (r"([\d.,]+) US dollars?", r"\1 미국 달러"),
        (r"(\d+) hours?, (\d+) minutes?", r"\1시간 \2분"),
        (r"([\d.]+%) or ([\d.]+%)", r"\1 또는 \2"),
        (r"(\d+)/(\d+)/(\d+)", r"\3. \1. \2."),
        (r"([1-9]|10|11):(\d\d) PM", r"오후 \1:\2"),
    ],
)
def test_amounts_follow_the_patterns_of_each_language(english, korean):
    pairs = [pair for pair in phrases("en", "ko") if re.fullmatch(english, pair[0])]
    assert len(pairs) > 5
    for source, target in pairs:
        assert target == re.sub(english, korean, source)


def test_lists_have_one_to_four_names_in_the_same_order():
    pairs = phrases("en", "ko")
    names = dict(pair for pair in pairs if re.fullmatch(r"[A-Z][a-z]+", pair[0]))
    assert {"Korean": "한국어", "Germany": "독일", "Monday": "월요일"}.items() <= names.items()
    lengths = defaultdict(int)
    for source, target in pairs:
        parts = re.split(r", (?:and |or )?| and | or ", source)
        if len(parts) > 1 and all(part in names for part in parts):
            assert re.split(", | 및 | 또는 ", target) == [names[part] for part in parts]
            lengths[len(parts)] += 1
    assert set(lengths) == {2, 3, 4} and min(lengths.values()) > 50


@pytest.mark.parametrize("pair", [("en", "ko"), ("de", "fr"), ("en", "ar"), ("zh_Hant", "ja")])
def test_the_splits_are_disjoint_and_each_source_is_there_once(pair):
    splits = [[source for source, _ in cldr_pairs(*pair, split)] for split in SPLITS]
    assert [len(split) for split in splits] == pytest.approx([11_000, 500, 500], abs=50)
    assert all(len(set(split)) == len(split) for split in splits)
    assert not any(set(one) & set(other) for one, other in combinations(splits, 2))


@pytest.mark.parametrize("pair", [("en", "ko"), ("de", "fr"), ("en", "ar")])
def test_every_word_of_a_held_out_phrase_is_in_the_training_set(pair):
    for side in (0, 1):
        texts = {
            split: " ".join(pair[side] for pair in cldr_pairs(*pair, split)) for split in SPLITS
        }
        words = {split: set(re.findall(r"[^\W\d]+|\d+", text)) for split, text in texts.items()}
        for split in ("validation", "test"):
            assert words[split] <= words["train"] and len(words[split]) > 200


def test_no_phrase_has_a_placeholder_or_a_special_space():
    for pair in (("en", "ko"), ("de", "fr"), ("en", "ar")):
        for text in (text for both in phrases(*pair) for text in both):
            assert not re.search(
                r"[{}\u00a0\u202f\u2009\u200e\u200f]|(length|duration)-|None", text
            )


def test_forms_that_read_the_same_have_one_translation():
    """Spanish months are abbreviated where English "May" looks long."""
    may = [
        target for source, target in phrases("en", "es") if re.fullmatch(r"May \d+, \d+", source)
    ]
    assert len(may) > 10
    assert all(re.fullmatch(r"\d+ de mayo de \d{4}", target) for target in may)


def test_a_language_does_not_depend_on_the_languages_used_before():
    """Names that a language does not store are found in its own data: Thai's are not Chinese."""
    months = [_locale(name).months["stand-alone"]["wide"][3] for name in ("zh_Hant", "th")]
    assert months == ["3月", "มีนาคม"]


def test_the_phrases_are_always_the_same():
    assert cldr_phrases.__wrapped__("en", "ko") == cldr_phrases("en", "ko")


@pytest.mark.parametrize("language", ["xx", "english", "e_", "en__"])
def test_an_unknown_language_is_refused_in_one_line(language):
    with pytest.raises(ValueError, match=f"a locale of CLDR such as .*; got '{language}'$"):
        cldr_pairs("en", language)


def test_source_and_target_language_must_differ():
    with pytest.raises(ValueError, match="must differ; got ko-ko"):
        cldr_pairs("ko", "ko")


def test_an_unknown_split_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown split 'dev'; known: train, validation, test"):
        cldr_pairs("en", "ko", "dev")
