"""The embedded text data: emoji names in fourteen languages, from the PyPI package `emoji`.

The names are those of Unicode (CLDR), about 3,900 for each pair of languages, half of them variants
by skin tone. The data is small and needs no download: good for a first run.
"""

import re
from collections.abc import Iterator, Sequence

from tfx_transformer.checks import check_choice
from tfx_transformer.data.splits import SPLITS, assign_split

# Words that distinguish variants of one emoji. Without them "man running", "woman running" and
# "person running facing right" are all "running", and must be in the same split.
_VARIANT_WORD = re.compile(
    r"(wo)?m[ae]n|person|people|boy|girl|adult|child|old(er)?|and|mer(maid|man|person)"
    r"|light|medium|dark|skin|tone|hair|red|blond|curly|white|bald|beard|left|right|up|down|(left|right)wards|facing|flag"
    r"|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\d.*"
)


def emoji_pairs(
    source: str, target: str, split: str = "train"
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Pairs of names in two languages, and {reason: number} of skipped emoji.

    All variants of a base name are in one split, by a hash of its English form: about 75 % train,
    15 % validation, 10 % test, the same for every pair of languages. A source phrase occurs in one
    split only.
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
            if assign_split(base_name(english)) == split:
                pairs.append((pair[0], pair[1]))
    return pairs, {reason: count for reason, count in skipped.items() if count}


def emoji_languages(
    languages: Sequence[str], split: str = "train"
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """(name, language) pairs, and {reason: number} of skipped names.

    The splits are those of `emoji_pairs`. A name that several of the languages share ("sushi") is
    skipped; a name of several emoji occurs once.
    """
    if len(set(languages)) < 2 or len(set(languages)) < len(languages):
        raise ValueError(f"languages must be two or more, each once; got {'-'.join(languages)}")
    splits: dict[str, dict[str, str]] = {}  # name → language → the split of its first emoji
    for english, *names in _names(languages, split):
        for language, name in zip(languages, names, strict=True):
            if name:
                splits.setdefault(name, {}).setdefault(language, assign_split(base_name(english)))
    pairs = [
        (name, language)
        for name, by_language in splits.items()
        for language, assigned in by_language.items()
        if len(by_language) == 1 and assigned == split
    ]
    shared = sum(len(by_language) > 1 for by_language in splits.values())
    return pairs, {"names shared by languages": shared} if shared else {}


def _names(languages: Sequence[str], split: str) -> Iterator[list[str]]:
    """The English name of each emoji and its names in `languages`, "" if missing."""
    from emoji import EMOJI_DATA, LANGUAGES, STATUS, config  # large tables

    for language in languages:
        check_choice(*LANGUAGES, language=language)
    check_choice(*SPLITS, split=split)
    config.load_language(list(languages))
    for entry in EMOJI_DATA.values():
        if entry["status"] == STATUS["fully_qualified"]:  # others are other encodings of it
            codes = (entry.get(language, "") for language in ("en", *languages))
            yield [code.strip(":").replace("_", " ") for code in codes]


def base_name(english: str) -> str:
    """The name without variants: "woman curly hair" → "person", "man running" → "running"."""
    words = re.findall(r"\w+", english.lower())
    return " ".join(word for word in words if not _VARIANT_WORD.fullmatch(word)) or "person"
