"""Date and timestamp templates of PostgreSQL's to_char, to_date and to_timestamp.

A template is split into fields (`YYYY`, `Mon`, `HH24`), texts in double quotes, and literal characters. `FM` before a
field suppresses its padding, `TH` after a number adds an English ordinal suffix.

The fields of an interval are its own: hours beyond 24 stay hours, and there are no names of months and days.

Formatting supports PostgreSQL's fields except those of time zones and eras (there are neither here). Parsing supports
the fields that determine a moment; a text that does not match its template, or a field that cannot be parsed, fails the
row.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from everview.codes.intervals import Interval
from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_CAST, ERROR_DOMAIN

MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")


class Part(NamedTuple):
    """A field with its modifiers, or a literal text (`field` is empty)."""

    field: str
    text: str
    bare: bool = False
    ending: str = ""


_FIELDS = (
    "SSSSS", "SSSS", "Y,YYY", "IYYY", "YYYY", "IDDD", "IYY", "YYY", "HH24", "HH12", "A.M.", "P.M.", "a.m.", "p.m.",
    "MONTH", "Month", "month", "DDD", "DAY", "Day", "day", "MON", "Mon", "mon", "FF1", "FF2", "FF3", "FF4", "FF5",
    "FF6", "HH", "MI", "SS", "MS", "US", "AM", "PM", "am", "pm", "YY", "IY", "MM", "DD", "DY", "Dy", "dy", "ID", "WW",
    "IW", "CC", "RM", "rm", "Y", "I", "D", "W", "J", "Q",
)  # fmt: skip
_UNKNOWN = ("TZH", "TZM", "TZ", "tz", "OF", "B.C.", "A.D.", "BC", "AD", "bc", "ad")
_NAMES = {f for f in _FIELDS if f.lower() in ("month", "mon", "day", "dy", "am", "pm", "a.m.", "p.m.", "rm")}


_QUOTED = re.compile(r'"((?:\\.|[^"\\])*(?:\\$)?)"?', re.DOTALL)
"""A text in double quotes, in which a backslash quotes what follows. Outside it only does so before a double quote."""


@lru_cache(256)
def parts(template: str) -> tuple[Part, ...]:
    """The parts of a template.

    >>> [p.field or p.text for p in parts('YYYY-MM "at" HH24:MI')]
    ['YYYY', '-', 'MM', ' ', 'at', ' ', 'HH24', ':', 'MI']
    """
    found: list[Part] = []
    i, bare = 0, False
    while i < len(template):
        if template[i] == '"':
            quoted = _QUOTED.match(template, i)
            assert quoted is not None
            found.append(Part("", re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)))
            i = quoted.end()
            continue
        if template[i : i + 2] == '\\"':
            found.append(Part("", '"'))
            i += 2
            continue
        if template[i : i + 2].upper() in ("FM", "FX", "TM"):  # TM: in the local language, which is English
            bare = template[i : i + 2].upper() != "FX"
            i += 2
            continue
        field = next((f for f in _FIELDS if _begins(template, i, f)), "")
        if not field:
            if any(template.startswith(u, i) for u in _UNKNOWN):
                raise RowFailure(ERROR_DOMAIN)
            found.append(Part("", template[i]))
            i += 1
            continue
        i += len(field)
        ending = template[i : i + 2] if template[i : i + 2] in ("TH", "th") else ""
        found.append(Part(field, "", bare, ending))
        i, bare = i + len(ending), False
    return tuple(found)


def _begins(template: str, at: int, field: str) -> bool:
    """Numeric fields may be in either case; the case of names determines how they are printed."""
    given = template[at : at + len(field)]
    return given == field or (field not in _NAMES and given.upper() == field)


# ---- writing


def _of_twelve(hour: int) -> int:
    """An hour on a clock's face; of an interval before noon too: -5 hours are -5."""
    return int(math.fmod(hour, 12)) or 12


_NUMBERS: dict[str, tuple[Callable[[Any], int], int]] = {
    "HH24": (lambda m: m.hour, 2),
    "HH12": (lambda m: _of_twelve(m.hour), 2),
    "HH": (lambda m: _of_twelve(m.hour), 2),
    "MI": (lambda m: m.minute, 2),
    "SS": (lambda m: m.second, 2),
    "MS": (lambda m: m.microsecond // 1000, 3),
    "US": (lambda m: m.microsecond, 6),
    "SSSS": (lambda m: m.hour * 3600 + m.minute * 60 + m.second, 0),
    "SSSSS": (lambda m: m.hour * 3600 + m.minute * 60 + m.second, 0),
    "YYYY": (lambda m: m.year, 4),
    "YYY": (lambda m: m.year % 1000, 3),
    "YY": (lambda m: m.year % 100, 2),
    "Y": (lambda m: m.year % 10, 1),
    "IYYY": (lambda m: m.isocalendar().year, 4),
    "IYY": (lambda m: m.isocalendar().year % 1000, 3),
    "IY": (lambda m: m.isocalendar().year % 100, 2),
    "I": (lambda m: m.isocalendar().year % 10, 1),
    "MM": (lambda m: m.month, 2),
    "DDD": (lambda m: m.timetuple().tm_yday, 3),
    "IDDD": (lambda m: (m.isocalendar().week - 1) * 7 + m.isoweekday(), 3),
    "DD": (lambda m: m.day, 2),
    "D": (lambda m: m.isoweekday() % 7 + 1, 1),
    "ID": (lambda m: m.isoweekday(), 1),
    "W": (lambda m: (m.day - 1) // 7 + 1, 1),
    "WW": (lambda m: (m.timetuple().tm_yday - 1) // 7 + 1, 2),
    "IW": (lambda m: m.isocalendar().week, 2),
    "CC": (lambda m: (m.year + 99) // 100, 2),
    "J": (lambda m: m.toordinal() + 1721425, 1),
    "Q": (lambda m: (m.month + 2) // 3, 1),
}
"""Numeric fields: the number, and its number of digits."""


def written(moment: dt.datetime, template: str) -> str:
    """Format a moment by a template.

    >>> written(dt.datetime(2026, 3, 7, 15, 4), "FMDDth FMMonth YYYY, HH12:MI am")
    '7th March 2026, 03:04 pm'
    """
    return "".join(_field(moment, part) for part in parts(template))


class Span(NamedTuple):
    """The fields of an interval, by the names that a moment has for them."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    microsecond: int


def written_span(interval: Interval, template: str) -> str:
    """Format an interval by a template.

    >>> written_span(Interval(months=14, days=3, microseconds=30 * 3600_000_000), "YYYY-MM-DD HH24:MI")
    '0001-02-03 30:00'
    """
    sign = -1 if interval.microseconds < 0 else 1
    seconds, micros = divmod(abs(interval.microseconds), 1_000_000)
    months = -1 if interval.months < 0 else 1
    years, rest = divmod(abs(interval.months), 12)
    clock = (seconds // 3600, seconds // 60 % 60, seconds % 60, micros)
    span = Span(months * years, months * rest, interval.days, *(sign * n for n in clock))
    if any(part.field and part.field not in _OF_SPANS for part in parts(template)):
        raise RowFailure(ERROR_DOMAIN)
    return "".join(_field(span, part) for part in parts(template))


_OF_SPANS = frozenset({
    "SSSSS", "SSSS", "YYYY", "YYY", "YY", "Y", "Y,YYY", "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "MM", "DD", "AM",
    "PM", "am", "pm", "A.M.", "P.M.", "a.m.", "p.m.", "CC", "Q", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6",
})  # fmt: skip
"""Fields that an interval has."""


def _field(moment: Any, part: Part) -> str:
    field = part.field
    if not field:
        return part.text
    if field in _NUMBERS:
        value, width = _NUMBERS[field]
        number = value(moment)
        signed = number < 0 and field != "DD"  # there a sign is one of two places, as in PostgreSQL
        digits = str(number) if part.bare else str(number).zfill(width + signed)
        return digits + _ordinal(number, part.ending)
    if field == "Y,YYY":
        return f"{moment.year // 1000},{moment.year % 1000:03d}"
    if field.startswith("FF"):
        return f"{moment.microsecond:06d}"[: int(field[2])]
    if field.lower() in ("am", "pm", "a.m.", "p.m."):
        return _half_of_day(moment, field)
    if field in ("RM", "rm"):
        roman = ROMAN[moment.month - 1]
        return _padded(roman.lower() if field == "rm" else roman, 4, part.bare)
    return _name(moment, field, part.bare)


def _half_of_day(moment: Any, field: str) -> str:
    letter = "p" if moment.hour % 24 >= 12 else "a"
    text = f"{letter}.m." if "." in field else f"{letter}m"
    return text.upper() if field.isupper() else text


def _name(moment: dt.datetime, field: str, bare: bool) -> str:
    full = MONTHS[moment.month - 1] if field.lower() in ("month", "mon") else DAYS[moment.weekday()]
    short = field.lower() in ("mon", "dy")
    name = full[:3] if short else full
    name = name.upper() if field.isupper() else name.lower() if field.islower() else name
    return name if short else _padded(name, 9, bare)


def _padded(text: str, width: int, bare: bool) -> str:
    return text if bare else text.ljust(width)


def _ordinal(number: int, ending: str) -> str:
    """st, nd, rd, th"""
    if not ending:
        return ""
    found = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return found.upper() if ending == "TH" else found


# ---- reading

_WIDTHS = {"YYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "MM": 2, "DD": 2, "DDD": 3, "HH24": 2, "HH12": 2, "HH": 2, "MI": 2,
           "SS": 2, "MS": 3, "US": 6, "J": 9, "SSSS": 5, "SSSSS": 5, "CC": 2, "Q": 1, "D": 1, "ID": 1, "WW": 2, "W": 1,
           "FF1": 1, "FF2": 2, "FF3": 3, "FF4": 4, "FF5": 5, "FF6": 6}  # fmt: skip
_READABLE = {"YYYY", "YYY", "YY", "Y", "MM", "DD", "DDD", "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "J", "SSSS",
             "SSSSS", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6"}  # fmt: skip


def parsed(text: str, template: str) -> dt.datetime:
    """Parse a moment by a template.

    >>> parsed("7 Mar 2026 3:04pm", "DD Mon YYYY HH12:MIam")
    datetime.datetime(2026, 3, 7, 15, 4)
    """
    values = _read(text, parts(template))
    try:
        if "J" in values:
            day = dt.date.fromordinal(values["J"] - 1721425)
        elif "DDD" in values:
            year = dt.date(_year(values), 1, 1)
            day = year + dt.timedelta(days=values["DDD"] - 1)
            if day.year != year.year:
                raise RowFailure(ERROR_CAST)
        else:
            day = dt.date(_year(values), values.get("MM", 1), values.get("DD", 1))
        moment = dt.datetime(day.year, day.month, day.day)
        return moment + _time(values)
    except (ValueError, OverflowError):
        raise RowFailure(ERROR_CAST) from None


def _year(values: dict[str, int]) -> int:
    return values.get("YYYY", 1)


def _time(values: dict[str, int]) -> dt.timedelta:
    if "SSSS" in values:
        return dt.timedelta(seconds=values["SSSS"])
    hour = values.get("HH24", 0)
    if "HH12" in values:
        if not 1 <= values["HH12"] <= 12:
            raise RowFailure(ERROR_CAST)
        hour = values["HH12"] % 12 + 12 * values.get("PM", 0)
    minute, second = values.get("MI", 0), values.get("SS", 0)
    if hour > 23 or minute > 59 or second > 59:
        raise RowFailure(ERROR_CAST)
    return dt.timedelta(hours=hour, minutes=minute, seconds=second, microseconds=values.get("US", 0))


def _read(text: str, fields: tuple[Part, ...]) -> dict[str, int]:
    values: dict[str, int] = {}
    at = 0
    for i, part in enumerate(fields):
        if not part.field:
            at = _skip(text, at, part.text)
            continue
        while text[at : at + 1].isspace():
            at += 1
        after = fields[i + 1].field if i + 1 < len(fields) else ""
        at = _take(text, at, part, bool(after) and after in _WIDTHS, values)
    if text[at:].strip():
        raise RowFailure(ERROR_CAST)
    return values


def _skip(text: str, at: int, separator: str) -> int:
    """A letter of the template matches one of the text; spaces match any number of them."""
    if separator.isspace():
        while text[at : at + 1].isspace():
            at += 1
        return at
    for sign in separator:
        if sign.isalnum() and text[at : at + 1].lower() != sign.lower():
            raise RowFailure(ERROR_CAST)
        if not text[at : at + 1] or (text[at].isalnum() and not sign.isalnum()):
            raise RowFailure(ERROR_CAST)
        at += 1
    return at


def _take(text: str, at: int, part: Part, adjacent: bool, values: dict[str, int]) -> int:
    field = part.field
    name = field.lower()
    if name in ("month", "mon", "day", "dy"):
        return _take_name(text, at, name, values)
    if name in ("am", "pm", "a.m.", "p.m."):
        found = re.match(r"([ap])\.?m\.?", text[at:], re.IGNORECASE)
        if not found:
            raise RowFailure(ERROR_CAST)
        values["PM"] = int(found[1].lower() == "p")
        return at + found.end()
    if field not in _READABLE:
        raise RowFailure(ERROR_DOMAIN)
    most = _WIDTHS[field] if adjacent or not field.startswith("YYYY") else 9
    digits = re.match(rf"[0-9]{{1,{most}}}", text[at:])
    if not digits:
        raise RowFailure(ERROR_CAST)
    _note(field, digits[0], values)
    return at + digits.end() + (2 if part.ending else 0)


def _note(field: str, digits: str, values: dict[str, int]) -> None:
    number = int(digits)
    if field in ("YYY", "YY", "Y"):
        number = _full_year(number, len(digits), len(field))
        field = "YYYY"
    elif field == "HH":
        field = "HH12"
    elif field == "SSSSS":
        field = "SSSS"
    elif field in ("MS", "US") or field.startswith("FF"):
        number, field = int(digits.ljust(6, "0")[:6]), "US"
    values[field] = number


def _full_year(number: int, digits: int, wanted: int) -> int:
    """For two digits the year nearest to 2020, as in PostgreSQL."""
    if digits > wanted or digits > 3:
        return number
    if digits == 3:
        return number + (1000 if number >= 520 else 2000)
    return number + (1900 if number >= 70 else 2000)


def _take_name(text: str, at: int, name: str, values: dict[str, int]) -> int:
    known = MONTHS if name in ("month", "mon") else DAYS
    for number, full in enumerate(known, 1):
        each = full[:3] if name in ("mon", "dy") else full
        if text[at : at + len(each)].lower() == each.lower():
            if known is MONTHS:
                values["MM"] = number
            return at + len(each)
    raise RowFailure(ERROR_CAST)
