"""Small models of both kinds, and strings of all kinds of characters."""

import random

import pytest

from tfx_transformer.data import load_pairs, train_tokenizer

RANGES = [
    (0x20, 0x7F),
    (0, 0x300),
    (0x300, 0x370),  # combining marks
    (0x600, 0x700),  # Arabic
    (0x1100, 0x1200),  # Korean letters, which are composed
    (0x1F00, 0x2000),  # Greek with accents
    (0x2000, 0x2C00),  # spaces, symbols
    (0x3000, 0x3100),  # Japanese
    (0xAC00, 0xD7A4),  # Korean
    (0xD800, 0xE000),  # surrogates, which are not valid
    (0xF900, 0x10000),  # ligatures, full-width letters
    (0x10000, 0x20000),
    (0, 0x110000),
]
WORDS = ["dog", "a", " ", "  ", "▁", "▁▁", "Ａ", "e\u0301", "<s>", "<0x41>", "\0", "\t", "\ufeff"]


def make_strings(count: int, seed: int = 0) -> list[bytes]:
    """Strings of 0 … 60 characters, some not valid UTF-8, a few of 3,000 characters."""
    rng, strings = random.Random(seed), []
    for index in range(count):
        left, string = 3000 if index % 500 == 499 else rng.choice([0, 1, 2, 3, 5, 8, 20, 60]), b""
        while left > 0:
            kind, run, codes = rng.random(), rng.randint(1, 4), range(*rng.choice(RANGES))
            characters = "".join(chr(rng.choice(codes)) for _ in range(run))
            encoded = characters.encode(errors="surrogatepass")
            if kind < 0.15:
                string += rng.choice(WORDS).encode()
            elif kind < 0.25:
                string += rng.randbytes(run)
            elif kind < 0.3:
                string += encoded[: rng.randint(1, 4)]  # perhaps cut within a character
            else:
                string += encoded
            left -= run
        strings.append(string)
    return strings


@pytest.fixture(scope="session")
def strings():
    return make_strings(300)


@pytest.fixture(scope="session")
def lines():
    """Dates, amounts and lists of CLDR in four languages."""
    pairs = [load_pairs(f"embedded:cldr/en-{language}") for language in ("ko", "ja", "ar")]
    return [text for pair in pairs for text in (*pair.source[:60], *pair.target[:60])]


@pytest.fixture(scope="session")
def models(lines):
    """By kind and byte fallback."""
    return {
        (kind, fallback): train_tokenizer(lines, 600, kind=kind, byte_fallback=fallback).model
        for kind in ("unigram", "bpe")
        for fallback in (True, False)
    }
