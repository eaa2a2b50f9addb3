"""The embedded phrases: dates, times, durations, amounts and lists in all languages of CLDR.

CLDR is Unicode's collection of how languages write such things; the PyPI package Babel has it. The
patterns and names are real, as phones and browsers show them; the values (which day, how many
dollars) are random, with a fixed seed:

    Tuesday, March 4, 2031, 9:05 AM         2031년 3월 4일 화요일 오전 9:05
    in 3 weeks                              3주 후
    60 kilometers per hour                  시속 60킬로미터
    Korean, French, and German              한국어, 프랑스어 및 독일어

There are 12,000 phrases, each source once: 11,000 to train, 500 to validate, 500 to test. No phrase
is in two splits, and every word of a validation or test phrase occurs in the training set, in both
languages: the task is to put known parts together in a new way. Nothing is downloaded.
"""

import copy
import random
import re
import unicodedata
from collections import Counter
from functools import cache

from babel import Locale, UnknownLocaleError, localedata

from tfx_transformer.checks import check_choice
from tfx_transformer.data.splits import SPLITS
from tfx_transformer.data.text.cldr_forms import KINDS, Form

TOTAL, HELD_OUT = 12_000, {"validation": 500, "test": 500}
OCCURRENCES = 3  # of a word in the training phrases, at least, if it is in a held-out phrase
# a number, a letter of a script that puts no spaces between words, another word, or a sign
WORD = re.compile(r"\d+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]|[^\W\d]+|\S")


@cache
def cldr_phrases(source: str, target: str) -> dict[str, list[tuple[str, str]]]:
    """{split: pairs of phrases} of two languages such as "en" and "ko", "pt_BR", "zh_Hant"."""
    if source == target:
        raise ValueError(f"source and target language must differ; got {source}-{target}")
    locales = _locale(source), _locale(target)
    rng, kinds, weights = random.Random(0), list(KINDS), list(KINDS.values())
    targets: dict[str, set[str]] = {}
    for _ in range(4 * TOTAL):
        if len(targets) == TOTAL:
            break
        one, other = _pair(rng.choices(kinds, weights)[0](rng), rng, *locales)
        targets.setdefault(one, set()).add(other)
    pairs = [(one, others.pop()) for one, others in targets.items() if len(others) == 1]
    rng.shuffle(pairs)
    return _split(pairs)


def cldr_pairs(source: str, target: str, split: str = "train") -> list[tuple[str, str]]:
    """The pairs of one split: "train", "validation" or "test"."""
    check_choice(*SPLITS, split=split)
    return cldr_phrases(source, target)[split]


def _locale(language: str) -> Locale:
    try:
        locale = Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        raise ValueError(
            f"language must be a locale of CLDR such as en, ko, pt_BR or zh_Hant; got {language!r}"
        ) from None
    data = localedata.load(str(locale))
    data.update(copy.deepcopy(data))  # Babel's locales share parts that they fill when first read
    return locale


def _pair(forms: list[Form], rng: random.Random, source: Locale, target: Locale):
    """One of the forms in two languages.

    Two forms may read the same in the source language: "May 4, 2031", with a long or a short name
    of the month. The first one then gives the translation, so that there is only one.
    """
    text = rng.choice(forms)(locale=source)
    first = next(form for form in forms if form(locale=source) == text)
    return _plain(text), _plain(first(locale=target))


def _plain(text: str) -> str:
    """Text as tokenizers normalize it: NFKC, plain spaces, no marks of the writing direction."""
    text = unicodedata.normalize("NFKC", re.sub("[\u200e\u200f\u061c]", "", text))
    return " ".join(text.split())


def _split(pairs: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Holds out pairs whose words still occur often enough in those that remain for training."""
    words = [
        {(side, word) for side in (0, 1) for word in WORD.findall(pair[side])} for pair in pairs
    ]
    left = Counter(word for one in words for word in one)
    splits: dict[str, list[tuple[str, str]]] = {split: [] for split in SPLITS}
    for index, (pair, own) in enumerate(zip(pairs, words, strict=True)):
        split = ("validation", "test")[index % 2]
        is_held_out = len(splits[split]) < HELD_OUT[split]
        if is_held_out and all(left[word] > OCCURRENCES for word in own):
            left.subtract(own)
            splits[split].append(pair)
        else:
            splits["train"].append(pair)
    return splits
