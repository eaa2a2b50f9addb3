"""Phrases and a tokenizer for all tests of this folder."""

import pytest

from tfx_transformer.data import load_pairs, train_tokenizer


@pytest.fixture(scope="session")
def phrases():
    """English, Korean and German emoji names."""
    korean, german = load_pairs("embedded:emoji/en-ko"), load_pairs("embedded:emoji/en-de")
    return {"en": korean.source, "ko": korean.target, "de": german.target}


@pytest.fixture(scope="session")
def tokenizer(phrases):
    return train_tokenizer(phrases["en"] + phrases["ko"] + phrases["de"], vocab_size=2500)
