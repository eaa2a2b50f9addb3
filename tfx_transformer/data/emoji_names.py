"""The embedded data: names of emoji in fourteen languages, from the PyPI package `emoji`.

The names are Unicode's own (CLDR), about 3,900 for each pair of languages, half of them one name in
several skin tones. Small, real and always there: good for a first run, too small for more.
"""

import re
from collections.abc import Iterator, Sequence

from emoji import EMOJI_DATA, LANGUAGES, STATUS, config

from tfx_transformer.data.splits import SPLITS, split_of

# Words that tell variants of one picture apart. Without them "man running", "woman running" and
# "person running facing right" are all "running", and must fall into the same split.
_VARIANT_WORD = re.compile(
    r"(wo)?m[ae]n|person|people|boy|girl|adult|child|old(er)?|and|mer(maid|man|person)"
    r"|light|medium|dark|skin|tone|hair|red|blond|curly|white|bald|beard|left|right|up|down|(left|right)wards|facing|flag"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d.*"
)


def emoji_pairs(
    source: str, target: str, split: str = "train"
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Pairs of names in two languages, and how many emoji were left out for which reason.

    A base name goes as a whole to one split, by a hash of its English form: about 75 % train,
    15 % validation, 10 % test, the same for every pair of languages and on every machine. A source
    phrase occurs once in all splits together, so test phrases are new.
    """
    if source == target:
        raise ValueError(f"source and target language must differ; got {source}-{target}")
    pairs, seen = [], set()
    skipped = {"unnamed": 0, "repeated source": 0}
    for english, *pair in _names([source, target], split):
        if not all(pair):
            skipped["unnamed"] += 1
        elif pair[0].casefold() in seen:
            skipped["repeated source"] += 1
        else:
            seen.add(pair[0].casefold())
            if split_of(base_name(english)) == split:
                pairs.append((pair[0], pair[1]))
    return pairs, {reason: count for reason, count in skipped.items() if count}


def emoji_languages(
    languages: Sequence[str], split: str = "train"
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Names and the language of each, and how many were left out for which reason.

    The splits are those of `emoji_pairs`. A name that several of the languages share ("sushi")
    tells nothing of its own, and is left out; one that several emoji have in a language is there
    once.
    """
    if len(set(languages)) < 2 or len(set(languages)) < len(languages):
        raise ValueError(f"languages must be two or more, each once; got {'-'.join(languages)}")
    places: dict[str, dict[str, str]] = {}  # name → language → the split of its first emoji
    for english, *names in _names(languages, split):
        for language, name in zip(languages, names, strict=True):
            if name:
                places.setdefault(name, {}).setdefault(language, split_of(base_name(english)))
    pairs = [
        (name, language)
        for name, found in places.items()
        for language, place in found.items()
        if len(found) == 1 and place == split
    ]
    shared = sum(len(found) > 1 for found in places.values())
    return pairs, {"names shared by languages": shared} if shared else {}


def _names(languages: Sequence[str], split: str) -> Iterator[list[str]]:
    """The English name of each emoji and those in some languages; "" where there is none."""
    for language in languages:
        if language not in LANGUAGES:
            raise ValueError(f"unknown language {language!r}; known: {', '.join(LANGUAGES)}")
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(SPLITS)}")
    config.load_language(list(languages))
    for entry in EMOJI_DATA.values():
        if entry["status"] == STATUS["fully_qualified"]:  # others are the same in another encoding
            yield [_name(entry.get(language, "")) for language in ("en", *languages)]


def base_name(english: str) -> str:
    """What variants have in common: "woman curly hair" → "person", "man running" → "running"."""
    words = re.findall(r"\w+", english.lower())
    return " ".join(word for word in words if not _VARIANT_WORD.fullmatch(word)) or "person"


def _name(code: str) -> str:
    return code.strip(":").replace("_", " ")
