"""The embedded data: names of emoji in fourteen languages, from the PyPI package `emoji`.

The names are Unicode's own (CLDR), about 3,900 for each pair of languages, half of them one name in
several skin tones. Small, real and always there: good for a first run, too small for more.
"""

import re

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
    for language in (source, target):
        if language not in LANGUAGES:
            raise ValueError(f"unknown language {language!r}; known: {', '.join(LANGUAGES)}")
    if source == target:
        raise ValueError(f"source and target language must differ; got {source}-{target}")
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; known: {', '.join(SPLITS)}")
    config.load_language([source, target])

    pairs, seen = [], set()
    skipped = {"unnamed": 0, "repeated source": 0}
    for entry in EMOJI_DATA.values():
        if entry["status"] != STATUS["fully_qualified"]:
            continue  # the same emoji under another encoding
        english, *pair = (_name(entry.get(language, "")) for language in ("en", source, target))
        if not all(pair):
            skipped["unnamed"] += 1
        elif pair[0].casefold() in seen:
            skipped["repeated source"] += 1
        else:
            seen.add(pair[0].casefold())
            if split_of(base_name(english)) == split:
                pairs.append((pair[0], pair[1]))
    return pairs, {reason: count for reason, count in skipped.items() if count}


def base_name(english: str) -> str:
    """What variants have in common: "woman curly hair" → "person", "man running" → "running"."""
    words = re.findall(r"\w+", english.lower())
    return " ".join(word for word in words if not _VARIANT_WORD.fullmatch(word)) or "person"


def _name(code: str) -> str:
    return code.strip(":").replace("_", " ")
