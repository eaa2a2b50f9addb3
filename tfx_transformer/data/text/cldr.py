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
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from functools import cache, partial

from babel import Locale, UnknownLocaleError, localedata
from babel.dates import (
    TIMEDELTA_UNITS,
    format_date,
    format_interval,
    format_skeleton,
    format_time,
    format_timedelta,
)
from babel.lists import format_list
from babel.numbers import format_compact_decimal, format_currency, format_percent, get_currency_name
from babel.units import format_unit

from tfx_transformer.checks import check_choice
from tfx_transformer.data.splits import SPLITS

TOTAL, HELD_OUT = 12_000, {"validation": 500, "test": 500}
OCCURRENCES = 3  # of a word in the training phrases, at least, if it is in a held-out phrase
# a number, a letter of a script that puts no spaces between words, another word, or a sign
WORD = re.compile(r"\d+|[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u9fff]|[^\W\d]+|\S")

# codes of CLDR
TERRITORIES = (
    "AE AR AT AU BE BG BR CA CH CL CN CO CU CZ DE DK EG ES FI FR GB GR HU ID IE IL IN IQ IR IS IT "
    "JP KE KR LU MA MX MY NG NL NO NZ PE PH PK PL PT QA RO RU SA SE SG TH TR TW UA US VN ZA"
)
LANGUAGES = (
    "ar bg bn ca cs da de el en es et fa fi fr he hi hr hu id is it ja ko la lt lv mn ms ne nl "
    "pl pt ro ru sk sl sq sr sv sw ta th tr uk ur vi"
)
CURRENCIES = (
    "AUD BRL CAD CHF CNY CZK DKK EGP EUR GBP HUF IDR INR JPY KRW MXN MYR NOK NZD PHP PLN SAR SEK "
    "SGD THB TRY TWD USD VND ZAR"
)
UNITS = (
    "length-kilometer length-meter length-centimeter length-mile length-foot length-inch "
    "mass-kilogram mass-gram mass-pound mass-ounce volume-liter volume-gallon volume-cup "
    "temperature-celsius temperature-fahrenheit area-square-kilometer area-square-meter "
    "area-hectare digital-gigabyte digital-megabyte energy-kilocalorie energy-kilowatt-hour "
    "speed-kilometer-per-hour speed-mile-per-hour speed-meter-per-second duration-year "
    "duration-month duration-week duration-day duration-hour duration-minute duration-second"
)
TWO_UNITS = [  # and how many of the second one are less than one of the first
    ("duration-year", "duration-month", 11),
    ("duration-week", "duration-day", 6),
    ("duration-day", "duration-hour", 23),
    ("duration-hour", "duration-minute", 59),
    ("duration-minute", "duration-second", 59),
    ("length-foot", "length-inch", 11),
    ("mass-pound", "mass-ounce", 15),
]
SMALL = [*range(1, 100), *range(100, 1000, 50)]
LARGE = range(1000, 20_000, 500)
HALVES = [n + 0.5 for n in range(1, 40)]
DAYS = ("yMMMEd", "yMMMd", "MMMMd", "MMMEd", "MMMd")  # skeletons: y year, M month, d day, E weekday
PERIODS = ("yMMMM", "yMMM", "yQQQQ")  # Q quarter

Form = Callable[..., str]  # a phrase as a function of the keyword `locale`


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
    pairs = [(one, *others) for one, others in targets.items() if len(others) == 1]
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
    """Text as one types it: plain spaces, and no invisible marks of the writing direction."""
    return " ".join(re.sub("[\u200e\u200f\u061c]", "", text).split())


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


# the kinds of phrases: each draws a value and returns the forms in which it may be written


def _dates(rng: random.Random) -> list[Form]:
    day = _day(rng)
    return _day_forms(day) + [partial(format_skeleton, skeleton, day) for skeleton in PERIODS]


def _times(rng: random.Random) -> list[Form]:
    return [partial(_time, value=_clock(rng))]


def _dates_with_time(rng: random.Random) -> list[Form]:
    """ "March 4, 2031, 9:05 AM"."""
    clock, forms = _clock(rng), _day_forms(_day(rng))

    def combine(form, locale):
        pattern = str(locale.datetime_formats["long"]).replace("'", "")
        day = form(locale=locale)
        return pattern.replace("{1}", day).replace("{0}", _time(clock, locale))

    return [partial(combine, form) for form in forms]


def _intervals(rng: random.Random) -> list[Form]:
    """ "Mar 4 – 7, 2031", or of times, weekdays and months."""
    start = datetime.combine(_day(rng), time())
    end = start + timedelta(days=rng.choice([rng.randint(1, 20), rng.randint(30, 300)]))
    clocks = [partial(_time, value=value) for value in sorted({_clock(rng), _clock(rng)})]
    days = [partial(_weekday, index=index) for index in sorted(rng.sample(range(7), 2))]
    months = [partial(_month, index=index) for index in sorted(rng.sample(range(1, 13), 2))]

    def join(one, other, locale):
        pattern = locale.interval_formats[None]
        return pattern.replace("{0}", one(locale=locale)).replace("{1}", other(locale=locale))

    skeletons = [s for s in ("yMMMd", "MMMd", "yMMMM") if s != "yMMMM" or start.month != end.month]
    return [
        *(partial(format_interval, start, end, skeleton) for skeleton in skeletons),
        *(partial(join, *ends) for ends in (clocks, days, months) if len(ends) == 2),
    ]


def _relative(rng: random.Random) -> list[Form]:
    """ "in 3 weeks", "3 weeks ago"."""
    unit, seconds = rng.choice(TIMEDELTA_UNITS)
    delta = timedelta(seconds=seconds * rng.choice([-1, 1]) * rng.randint(1, 60))
    exact = {"granularity": unit, "threshold": 1e9, "add_direction": True}
    return [partial(format_timedelta, delta, **exact)]


def _measures(rng: random.Random) -> list[Form]:
    unit, number = rng.choice(UNITS.split()), rng.choice([*SMALL, *HALVES])
    return [partial(_measure, number, unit, length) for length in ("long", "short")]


def _two_units(rng: random.Random) -> list[Form]:
    """ "3 hours, 20 minutes"."""
    large, small, most = rng.choice(TWO_UNITS)
    values = (rng.randint(1, 30), large), (rng.randint(1, most), small)
    return [
        _listed([partial(_measure, *value, length) for value in values], "unit-short")
        for length in ("long", "short")
    ]


def _money(rng: random.Random) -> list[Form]:
    """ "12 US dollars", "5 euros or 30 Swedish kronor"."""
    amounts = [
        partial(
            format_currency,
            rng.choice([*SMALL, *LARGE]),
            code,
            format_type="name",
            currency_digits=False,
        )
        for code in rng.sample(CURRENCIES.split(), 2)
    ]
    return [amounts[0], _listed(amounts, "standard"), _listed(amounts, "or")]


def _percentages(rng: random.Random) -> list[Form]:
    values = rng.sample([n / 200 for n in range(201)], 2)
    forms = [partial(format_percent, value, decimal_quantization=False) for value in values]
    return [forms[0], _listed(forms, "standard"), _listed(forms, "or")]


def _large_numbers(rng: random.Random) -> list[Form]:
    """ "1.2 million"."""
    value = rng.randint(1, 99) * 10 ** rng.randint(3, 9)

    def compact(locale):
        lengths = locale.compact_decimal_formats
        length = "long" if "long" in lengths else "short"
        return format_compact_decimal(value, format_type=length, locale=locale, fraction_digits=2)

    return [compact]


def _names(rng: random.Random) -> list[Form]:
    """One to four countries, languages, currencies, weekdays or months."""
    name, values = rng.choice(
        [
            (_territory, TERRITORIES.split()),
            (_language, LANGUAGES.split()),
            (get_currency_name, CURRENCIES.split()),
            (_weekday, range(7)),
            (_month, range(1, 13)),
        ]
    )
    items = [partial(name, value) for value in rng.sample(values, rng.randint(1, 4))]
    return [_listed(items, "standard"), _listed(items, "or")]


KINDS = {  # and how often each occurs
    _dates: 30,
    _dates_with_time: 20,
    _times: 3,
    _intervals: 12,
    _relative: 6,
    _measures: 10,
    _two_units: 8,
    _money: 12,
    _percentages: 3,
    _large_numbers: 2,
    _names: 20,
}


def _day(rng: random.Random) -> date:
    return date(2000, 1, 1) + timedelta(days=rng.randrange(50 * 365))


def _clock(rng: random.Random) -> time:
    return time(rng.randrange(24), rng.choice([0, 30, rng.randrange(60)]))


def _day_forms(day: date) -> list[Form]:
    return [
        *(partial(format_date, day, style) for style in ("full", "long")),
        *(partial(format_skeleton, skeleton, day) for skeleton in DAYS),
        partial(format_date, day, "short"),
    ]


def _time(value: time, locale: Locale) -> str:
    """The short form, but with a language's own words for AM and PM, as software shows them."""
    parts = locale.time_formats["short"].pattern.split("'")
    parts[::2] = [part.replace("a", "aaaa") for part in parts[::2]]  # others are quoted
    return format_time(value, "'".join(parts), locale=locale)


def _measure(number: float, unit: str, length: str, locale: Locale) -> str:
    """Also short where Babel has no long form, as in Arabic."""
    text = format_unit(number, unit, length, locale=locale)
    return format_unit(number, unit, "short", locale=locale) if unit in text else text


def _listed(forms: Sequence[Form], style: str) -> Form:
    def join(locale):
        own = style if "2" in locale.list_patterns.get(style, ()) else "standard"
        return format_list([form(locale=locale) for form in forms], own, locale)

    return join


def _territory(code: str, locale: Locale) -> str:
    return locale.territories.get(code, code)


def _language(code: str, locale: Locale) -> str:
    return locale.languages.get(code, code)


def _weekday(index: int, locale: Locale) -> str:
    return locale.days["stand-alone"]["wide"][index]


def _month(index: int, locale: Locale) -> str:
    return locale.months["stand-alone"]["wide"][index]
