"""The embedded emoji names, and splits that do not overlap."""

from collections import Counter
from itertools import combinations

import pytest

from tfx_transformer.data.splits import SPLITS, assign_split
from tfx_transformer.data.text.emoji_names import base_name, emoji_languages, emoji_pairs


def test_names_are_those_of_the_emoji_package():
    pairs, _ = emoji_pairs("en", "ko")
    assert ("man artist", "남자 화가") in pairs
    assert all(source and target and "_" not in source + target for source, target in pairs)


@pytest.mark.parametrize("languages", [("en", "ko"), ("ko", "en"), ("de", "fr"), ("ja", "zh")])
def test_no_source_phrase_is_in_two_splits(languages):
    sources = [
        {pair[0].casefold() for pair in emoji_pairs(*languages, split)[0]} for split in SPLITS
    ]
    assert all(sources)
    assert not any(one & other for one, other in combinations(sources, 2))


def test_no_base_name_is_in_two_splits():
    bases = [{base_name(source) for source, _ in emoji_pairs("en", "ko", s)[0]} for s in SPLITS]
    assert not any(one & other for one, other in combinations(bases, 2))


def test_the_splits_are_about_seventy_five_fifteen_and_ten_percent():
    sizes = [len(emoji_pairs("en", "ko", split)[0]) for split in SPLITS]
    assert sum(sizes) > 3800
    fractions = [size / sum(sizes) for size in sizes]
    assert fractions == pytest.approx([0.75, 0.15, 0.1], abs=0.03)


def test_no_group_of_variants_dominates_a_test_split():
    for split in ("validation", "test"):
        pairs, _ = emoji_pairs("en", "ko", split)
        groups = Counter(base_name(source) for source, _ in pairs)
        assert max(groups.values()) < 0.2 * len(pairs)


def test_the_skin_tones_of_a_name_are_in_one_split():
    splits = [
        split
        for split in SPLITS
        for source, _ in emoji_pairs("en", "ko", split)[0]
        if source.startswith("woman astronaut")
    ]
    assert len(splits) == 6 and len(set(splits)) == 1


@pytest.mark.parametrize(
    ("names", "base"),
    [
        (["man running", "woman running", "person running facing right"], "running"),
        (["man", "woman curly hair", "old man", "person beard"], "person"),
        (["keycap 1", "keycap #", "keycap 10"], "keycap"),
        (["flag: Germany", "Germany"], "germany"),
        (["family man woman boy", "family adult child", "family"], "family"),
        (["astronaut", "man astronaut medium-dark skin tone"], "astronaut"),
        (["left arrow", "up-down arrow"], "arrow"),
        (["1st place medal", "3rd place medal"], "place medal"),
    ],
)
def test_variants_share_a_base_name(names, base):
    assert {base_name(name) for name in names} == {base}


def test_words_that_only_begin_like_a_variant_word_are_kept():
    assert base_name("mango") == "mango"
    assert base_name("rightful owner") == "rightful owner"


def test_an_unknown_language_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown language 'xx'; known: en, .*\bko\b"):
        emoji_pairs("en", "xx")


def test_source_and_target_language_must_differ():
    with pytest.raises(ValueError, match="must differ; got ko-ko"):
        emoji_pairs("ko", "ko")


def test_an_unknown_split_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown split 'dev'; known: train, validation, test"):
        emoji_pairs("en", "ko", "dev")


def test_each_name_has_one_language_and_the_split_of_its_base_name():
    parts = {split: emoji_languages(["de", "en", "it"], split) for split in SPLITS}
    names = [name for pairs, _ in parts.values() for name, _ in pairs]
    assert len(names) == len(set(names)) > 8000
    for split, (pairs, skipped) in parts.items():
        assert skipped["names shared by languages"] > 100 and ("sushi", "en") not in pairs
        english = [name for name, language in pairs if language == "en"]
        assert {assign_split(base_name(name)) for name in english} == {split}


@pytest.mark.parametrize("languages", [["en"], ["en", "en"], ["en", "de", "en"]])
def test_languages_must_differ(languages):
    with pytest.raises(ValueError, match="must be two or more, each once"):
        emoji_languages(languages)
