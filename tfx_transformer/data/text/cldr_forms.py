"""The kinds of phrases in `cldr.py`: random values, and the forms in which CLDR writes them.

A kind is a function that draws a value, such as a day, and returns its forms in the order of
preference: "Tuesday, March 4, 2031", "March 4, 2031", "Tue, Mar 4", …, each for any language.
"""

import random
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from functools import partial
from typing import Any, Literal

from babel import Locale, dates, lists, numbers, units

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
    "temperature-celsius temperature-fahrenheit area-hectare area-acre digital-gigabyte "
    "digital-megabyte energy-kilocalorie energy-kilowatt-hour speed-kilometer-per-hour "
    "speed-mile-per-hour speed-meter-per-second duration-year duration-month duration-week "
    "duration-day duration-hour duration-minute duration-second"
)
TWO_UNITS = {  # and how many of the second one are less than one of the first
    "duration-year duration-month": 11,
    "duration-week duration-day": 6,
    "duration-day duration-hour": 23,
    "duration-hour duration-minute": 59,
    "duration-minute duration-second": 59,
    "length-foot length-inch": 11,
    "mass-pound mass-ounce": 15,
}
SMALL = [*range(1, 100), *range(100, 1000, 50)]
LARGE = range(1000, 20_000, 500)
HALVES = [n + 0.5 for n in range(1, 40)]
DAYS = ("yMMMEd", "yMMMd", "MMMMd", "MMMEd", "MMMd")  # skeletons: y year, M month, d day, E weekday
PERIODS = ("yMMMM", "yMMM", "yQQQQ")  # Q quarter

Form = Callable[..., str]  # a phrase as a function of the keyword `locale`


def _dates(rng: random.Random) -> list[Form]:
    day = _day(rng)
    return _day_forms(day) + [partial(dates.format_skeleton, skeleton, day) for skeleton in PERIODS]


def _times(rng: random.Random) -> list[Form]:
    return [partial(_time, _clock(rng))]


def _dates_with_time(rng: random.Random) -> list[Form]:
    """As "March 4, 2031, 9:05 AM"."""
    clock, forms = _clock(rng), _day_forms(_day(rng))

    def combine(form, locale):
        pattern = str(locale.datetime_formats["long"]).replace("'", "")
        day = form(locale=locale)
        return pattern.replace("{1}", day).replace("{0}", _time(clock, locale))

    return [partial(combine, form) for form in forms]


def _intervals(rng: random.Random) -> list[Form]:
    """As "Mar 4 – 7, 2031", or of times, weekdays and months."""
    start = datetime.combine(_day(rng), time())
    end = start + timedelta(days=rng.choice([rng.randint(1, 20), rng.randint(30, 300)]))
    clocks = [partial(_time, value) for value in sorted({_clock(rng), _clock(rng)})]
    days = [partial(_weekday, index) for index in sorted(rng.sample(range(7), 2))]
    months = [partial(_month, index) for index in sorted(rng.sample(range(1, 13), 2))]

    def join(one, other, locale):
        pattern = locale.interval_formats[None]
        return pattern.replace("{0}", one(locale=locale)).replace("{1}", other(locale=locale))

    skeletons = [s for s in ("yMMMd", "MMMd", "yMMMM") if s != "yMMMM" or start.month != end.month]
    return [
        *(partial(dates.format_interval, start, end, skeleton) for skeleton in skeletons),
        *(partial(join, *ends) for ends in (clocks, days, months) if len(ends) == 2),
    ]


def _relative(rng: random.Random) -> list[Form]:
    """As "in 3 weeks", "3 weeks ago"."""
    unit: Any
    unit, seconds = rng.choice(dates.TIMEDELTA_UNITS)
    delta = timedelta(seconds=seconds * rng.choice([-1, 1]) * rng.randint(1, 60))
    in_unit = partial(dates.format_timedelta, granularity=unit, threshold=1e9)
    return [partial(in_unit, delta, add_direction=True)]


def _measures(rng: random.Random) -> list[Form]:
    unit, number = rng.choice(UNITS.split()), rng.choice([*SMALL, *HALVES])
    return [partial(_measure, number, unit, length) for length in ("long", "short")]


def _two_units(rng: random.Random) -> list[Form]:
    """As "3 hours, 20 minutes"."""
    both, most = rng.choice(list(TWO_UNITS.items()))
    large, small = both.split()
    values = (rng.randint(1, 30), large), (rng.randint(1, most), small)
    return [
        _listed([partial(_measure, *value, length) for value in values], "unit-short")
        for length in ("long", "short")
    ]


def _money(rng: random.Random) -> list[Form]:
    """As "12 US dollars", "5 euros or 30 Swedish kronor"."""
    in_words = partial(numbers.format_currency, format_type="name", currency_digits=False)
    codes = rng.sample(CURRENCIES.split(), 2)
    amounts = [partial(in_words, rng.choice([*SMALL, *LARGE]), code) for code in codes]
    return [amounts[0], _listed(amounts, "standard"), _listed(amounts, "or")]


def _percentages(rng: random.Random) -> list[Form]:
    values = rng.sample([n / 200 for n in range(201)], 2)
    forms = [partial(numbers.format_percent, value, decimal_quantization=False) for value in values]
    return [forms[0], _listed(forms, "standard"), _listed(forms, "or")]


def _names(rng: random.Random) -> list[Form]:
    """One to four countries, languages, currencies, weekdays or months."""
    kinds: list[tuple[Form, Sequence]] = [
        (partial(_name, "territories"), TERRITORIES.split()),
        (partial(_name, "languages"), LANGUAGES.split()),
        (partial(_name, "currencies"), CURRENCIES.split()),
        (_weekday, range(7)),
        (_month, range(1, 13)),
    ]
    name, values = rng.choice(kinds)
    items = [partial(name, value) for value in rng.sample(values, rng.randint(1, 4))]
    return [_listed(items, "standard"), _listed(items, "or")]


def _day(rng: random.Random) -> date:
    return date(2000, 1, 1) + timedelta(days=rng.randrange(50 * 365))


def _clock(rng: random.Random) -> time:
    return time(rng.randrange(24), rng.choice([0, 30, rng.randrange(60)]))


def _day_forms(day: date) -> list[Form]:
    return [
        *(partial(dates.format_date, day, style) for style in ("full", "long")),
        *(partial(dates.format_skeleton, skeleton, day) for skeleton in DAYS),
        partial(dates.format_date, day, "short"),
    ]


def _time(value: time, locale: Locale) -> str:
    """The short form, but with a language's own words for AM and PM, as software shows them."""
    parts = locale.time_formats["short"].pattern.split("'")
    parts[::2] = [part.replace("a", "aaaa") for part in parts[::2]]  # others are quoted
    return dates.format_time(value, "'".join(parts), locale=locale)


def _measure(number: float, unit: str, length: Literal["long", "short"], locale: Locale) -> str:
    """Also short where Babel has no long form, as in Arabic."""
    text = units.format_unit(number, unit, length, locale=locale)
    return units.format_unit(number, unit, "short", locale=locale) if unit in text else text


def _listed(forms: Sequence[Form], style: str) -> Form:
    def join(locale):
        own = style if "2" in locale.list_patterns.get(style, ()) else "standard"
        return lists.format_list([form(locale=locale) for form in forms], own, locale)

    return join


def _name(kind: str, code: str, locale: Locale) -> str:
    return getattr(locale, kind).get(code, code)


def _weekday(index: int, locale: Locale) -> str:
    return locale.days["stand-alone"]["wide"][index]


def _month(index: int, locale: Locale) -> str:
    return locale.months["stand-alone"]["wide"][index]


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
    _names: 20,
}
