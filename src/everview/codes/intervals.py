"""Intervals as in PostgreSQL: months, days and microseconds, which cannot be converted into one another.

A month has no fixed number of days, and a day is not always 24 hours. Only comparisons assume 30 days and 24 hours:
`total`. So '1 month' = '30 days', although adding them to a date gives different days. An interval whose total does not
fit 64 bits of microseconds (292,000 years) is refused.

>>> str(Interval(months=14, days=3, microseconds=4 * HOUR + 500_000))
'1 year 2 mons 3 days 04:00:00.5'
>>> parse("1 week -1 hours").days, parse("1.5 months"), parse("P1Y2M3DT4H") == parse("1-2 3 4:00")
(7, Interval(months=1, days=15, microseconds=0), True)
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import total_ordering

SECOND = 1_000_000
MINUTE, HOUR, DAY = 60 * SECOND, 3600 * SECOND, 86_400 * SECOND
MONTH_DAYS = 30


@total_ordering
@dataclass(frozen=True)
class Interval:
    """A span of time. Equal if its parts are; ordered by length.

    >>> Interval(months=1) > Interval(days=29), Interval(days=1) == Interval(microseconds=DAY)
    (True, False)
    """

    months: int = 0
    days: int = 0
    microseconds: int = 0

    @property
    def total(self) -> int:
        """Microseconds, with 30 days per month and 24 hours per day."""
        return (self.months * MONTH_DAYS + self.days) * DAY + self.microseconds

    def __lt__(self, other: Interval) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[int, int, int]:
        return self.total, self.months, self.days

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.days, -self.microseconds)

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.months + other.months, self.days + other.days, self.microseconds + other.microseconds)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, factor: int | float | Fraction) -> Interval:
        """Fractions carry down: of a month into days (to a millionth of a day, as in PostgreSQL), of a day into
        time."""
        by = Fraction(factor)
        months, days = self.months * by, self.days * by
        left = Fraction(round((months - int(months)) * MONTH_DAYS * 10**6), 10**6)
        rest = round((days - int(days) + left - int(left)) * DAY)
        more = int(Fraction(rest, DAY))
        whole = int(days) + int(left) + more
        return Interval(int(months), whole, round(self.microseconds * by) + rest - more * DAY)

    def timedelta(self) -> dt.timedelta:
        """The interval as a Python timedelta, which has no months.

        >>> Interval(days=1, microseconds=5).timedelta()
        datetime.timedelta(days=1, microseconds=5)
        """
        if self.months:
            raise ValueError(f"{self} has months, which a timedelta has not")
        return dt.timedelta(days=self.days, microseconds=self.microseconds)

    def __str__(self) -> str:
        """In PostgreSQL's format."""
        years, months = divmod(abs(self.months), 12)
        sign = -1 if self.months < 0 else 1
        words: list[str] = []
        negative = False  # a positive part after a negative one is written with its sign
        for amount, word in ((sign * years, "year"), (sign * months, "mon"), (self.days, "day")):
            if amount:
                words.append(f"{'+' if negative and amount > 0 else ''}{amount} {word}{'' if amount == 1 else 's'}")
                negative = amount < 0
        if self.microseconds or not words:
            mark = "-" if self.microseconds < 0 else "+" if negative else ""
            words.append(mark + clock_text(abs(self.microseconds)))
        return " ".join(words)


def clock_text(microseconds: int) -> str:
    """
    >>> clock_text(3_661_500_000)
    '01:01:01.5'
    """
    seconds, fraction = divmod(microseconds, SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return text + (f".{fraction:06}".rstrip("0") if fraction else "")


def of_timedelta(value: dt.timedelta) -> Interval:
    """
    >>> of_timedelta(dt.timedelta(days=1, seconds=1))
    Interval(months=0, days=1, microseconds=1000000)
    """
    return Interval(0, value.days, value.seconds * SECOND + value.microseconds)


def _spilled(months: Fraction, days: Fraction, microseconds: Fraction) -> Interval:
    """An interval of fractional parts: fractions of a month become days, of a day microseconds."""
    whole_months = int(months)
    days += (months - whole_months) * MONTH_DAYS
    # PostgreSQL rounds the remainder of a month to microseconds, so that a third of a month has no stray ones
    days = Fraction(round(days * DAY), DAY)
    whole_days = int(days)
    return Interval(whole_months, whole_days, round(microseconds + (days - whole_days) * DAY))


_UNITS: dict[str, tuple[int, int, int]] = {
    "microsecond": (0, 0, 1),
    "millisecond": (0, 0, 1000),
    "second": (0, 0, SECOND),
    "minute": (0, 0, MINUTE),
    "hour": (0, 0, HOUR),
    "day": (0, 1, 0),
    "week": (0, 7, 0),
    "month": (1, 0, 0),
    "quarter": (3, 0, 0),
    "year": (12, 0, 0),
    "decade": (120, 0, 0),
    "century": (1200, 0, 0),
    "millennium": (12_000, 0, 0),
}
_SHORT = {
    "us": "microsecond", "usec": "microsecond", "microsecon": "microsecond", "ms": "millisecond", "msec": "millisecond",
    "s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week",
    "mon": "month", "y": "year", "yr": "year", "dec": "decade", "c": "century", "cent": "century",
    "centurie": "century", "mil": "millennium", "millennia": "millennium",
}  # fmt: skip

_WORDS = re.compile(
    r"\s*(?:(?P<sign>[+-])?(?P<hours>\d+):(?P<minutes>\d{1,2})(?::(?P<seconds>\d{1,2}(?:\.\d*)?))?"
    r"|(?P<years>[+-]?\d+)-(?P<months>\d+)"
    r"|(?P<amount>[+-]?(?:\d+\.?\d*|\.\d+))\s*(?P<unit>[a-zA-Z]+)?"
    r"|(?P<ago>ago))(?=\s|$|[+-])",
    re.IGNORECASE,
)
_ISO = re.compile(
    r"P(?:(?P<Y>[+-]?[\d.]+)Y)?(?:(?P<M>[+-]?[\d.]+)M)?(?:(?P<W>[+-]?[\d.]+)W)?(?:(?P<D>[+-]?[\d.]+)D)?"
    r"(?:T(?:(?P<h>[+-]?[\d.]+)H)?(?:(?P<m>[+-]?[\d.]+)M)?(?:(?P<s>[+-]?[\d.]+)S)?)?",
    re.IGNORECASE,
)
_ISO_CLOCK = re.compile(r"P(\d{4})-(\d{2})-(\d{2})(?:T(\d{1,2}:\d{2}(?::\d{2}(?:\.\d*)?)?))?", re.IGNORECASE)
_ISO_UNITS = {"Y": "year", "M": "month", "W": "week", "D": "day", "h": "hour", "m": "minute", "s": "second"}


def unit_name(word: str) -> str | None:
    """The unit that a word stands for, if any.

    >>> unit_name("mons"), unit_name("HOURS"), unit_name("fortnight")
    ('month', 'hour', None)
    """
    name = word.lower()
    for each in (name, name.removesuffix("s")):
        if each in _UNITS:
            return each
        if each in _SHORT:
            return _SHORT[each]
    return None


def parse(text: str, unit: str = "second") -> Interval:
    """Parse an interval as PostgreSQL does; `unit` applies to a number without one. ValueError if invalid."""
    body = text.strip()
    if body[:1] in ("P", "p"):
        if (clocked := _ISO_CLOCK.fullmatch(body)) is not None:
            years, months, days, clock = clocked.groups()
            return parse(f"{years} years {months} months {days} days {clock or ''}")
        found = _ISO.fullmatch(body)
        amounts = [(_ISO_UNITS[k], v) for k, v in (found.groupdict() if found else {}).items() if v is not None]
        if not amounts:
            raise ValueError(text)
        return _sum([(_amount(v, text), name) for name, v in amounts], Fraction(0), 1)
    body = body.removeprefix("@").strip()
    parts: list[tuple[Fraction, str]] = []
    clock, sign, at = Fraction(0), 1, 0
    while at < len(body):
        found = _WORDS.match(body, at)
        if found is None or found.end() == at:
            raise ValueError(text)
        at = found.end()
        if found["ago"]:
            if at != len(body) or (not parts and not clock):
                raise ValueError(text)
            sign = -1
        elif found["hours"] is not None:
            clock += _clock(found, text)
        elif found["years"] is not None:
            months = int(found["years"]) * 12
            months += int(found["months"]) * (-1 if found["years"].startswith("-") else 1)
            parts.append((Fraction(months), "month"))
        else:
            later = at < len(body) and not found["unit"] and _WORDS.match(body, at)
            word = found["unit"] or ("day" if later and later["hours"] is not None else unit)
            name = unit_name(word)
            if name is None:
                raise ValueError(text)
            parts.append((_amount(found["amount"], text), name))
    if not parts and not clock and ":" not in body:
        raise ValueError(text)
    return _sum(parts, clock, sign)


def cut(span: Interval, unit: str) -> Interval:
    """Truncate an interval to a unit.

    >>> cut(Interval(1, 2, 3 * HOUR + 4 * MINUTE), "hour") == Interval(1, 2, 3 * HOUR)
    True
    """
    step = {"hour": HOUR, "minute": MINUTE, "second": 1}.get(unit, DAY)
    time = int(span.microseconds / step) * step if step < DAY else 0
    days = 0 if unit in ("year", "month") else span.days
    months = int(span.months / 12) * 12 if unit == "year" else span.months
    return Interval(months, days, time)


def _amount(word: str, text: str) -> Fraction:
    try:
        return Fraction(word.rstrip("."))
    except ValueError:
        raise ValueError(text) from None


def _clock(found: re.Match[str], text: str) -> Fraction:
    minutes, seconds = int(found["minutes"]), Fraction((found["seconds"] or "0").rstrip("."))
    if minutes > 59 or seconds >= 60:
        raise ValueError(text)
    total = int(found["hours"]) * HOUR + minutes * MINUTE + seconds * SECOND
    return -total if found["sign"] == "-" else Fraction(total)


def _sum(parts: list[tuple[Fraction, str]], clock: Fraction, sign: int) -> Interval:
    months = days = Fraction(0)
    for amount, name in parts:
        by_month, by_day, by_time = _UNITS[name]
        if by_month > 1:
            months += int(amount * by_month)  # PostgreSQL truncates a fractional year to whole months
        else:
            months += amount * by_month
        days += amount * by_day
        clock += amount * by_time
    found = _spilled(months, days, clock)
    return found if sign > 0 else -found


def in_range(value: Interval) -> bool:
    """Whether it can be stored: its total and each part fit.

    >>> in_range(Interval(months=1)), in_range(Interval(months=2**31))
    (True, False)
    """
    return -(2**63) < value.total < 2**63 and abs(value.months) < 2**31 and abs(value.days) < 2**31
