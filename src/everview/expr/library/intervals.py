"""Functions of intervals: PostgreSQL's age, justify_..., make_interval, and make_time."""

from __future__ import annotations

import calendar
import datetime as dt
from typing import Any

from everview.codes.intervals import DAY, Interval
from everview.expr.library.signatures import Shelf
from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_DOMAIN

SHELF = Shelf()

_SECOND = 1_000_000


def age(a: dt.datetime, b: dt.datetime) -> Interval:
    """From b to a in years, months and days: whole months first, then days of the earlier month.

    >>> str(age(dt.datetime(2001, 4, 10), dt.datetime(1957, 6, 13)))
    '43 years 9 mons 27 days'
    """
    if a < b:
        return -_forward(b, a, a)
    return _forward(a, b, b)


def _forward(late: dt.datetime, early: dt.datetime, borrowed: dt.datetime) -> Interval:
    """The difference part by part; missing days are borrowed from the month of `borrowed`."""
    clock = (late - dt.datetime.combine(late, dt.time())) - (early - dt.datetime.combine(early, dt.time()))
    microseconds = clock // dt.timedelta(microseconds=1)
    days, months = late.day - early.day, (late.year - early.year) * 12 + late.month - early.month
    if microseconds < 0:
        microseconds, days = microseconds + DAY, days - 1
    while days < 0:
        days, months = days + calendar.monthrange(borrowed.year, borrowed.month)[1], months - 1
    return Interval(months, days, microseconds)


def _whole(amount: int, size: int) -> tuple[int, int]:
    """Truncated quotient and remainder."""
    count = abs(amount) // size * (1 if amount >= 0 else -1)
    return count, amount - count * size


def _like_signs(large: int, small: int, size: int) -> tuple[int, int]:
    """Give both the same sign."""
    if large > 0 > small:
        return large - 1, small + size
    if large < 0 < small:
        return large + 1, small - size
    return large, small


def justify_hours(span: Interval) -> Interval:
    """Convert 24 hours to a day.

    >>> str(justify_hours(Interval(microseconds=27 * 3600 * 10**6)))
    '1 day 03:00:00'
    """
    more, rest = _whole(span.microseconds, DAY)
    days, rest = _like_signs(span.days + more, rest, DAY)
    return Interval(span.months, days, rest)


def justify_days(span: Interval) -> Interval:
    """Convert 30 days to a month.

    >>> str(justify_days(Interval(days=35)))
    '1 mon 5 days'
    """
    more, rest = _whole(span.days, 30)
    months, rest = _like_signs(span.months + more, rest, 30)
    return Interval(months, rest, span.microseconds)


def justify_interval(span: Interval) -> Interval:
    """Both, with all parts of the same sign.

    >>> str(justify_interval(Interval(months=1, microseconds=-3600 * 10**6)))
    '29 days 23:00:00'
    """
    more, microseconds = _whole(span.microseconds, DAY)
    more, days = _whole(span.days + more, 30)
    months = span.months + more
    if months > 0 and (days < 0 or (days == 0 and microseconds < 0)):
        months, days = months - 1, days + 30
    elif months < 0 and (days > 0 or (days == 0 and microseconds > 0)):
        months, days = months + 1, days - 30
    days, microseconds = _like_signs(days, microseconds, DAY)
    return Interval(months, days, microseconds)


_MONTHS = {"millennium": 12_000, "century": 1200, "decade": 120, "year": 12, "quarter": 3, "month": 1}
_TIMES = {
    "day": DAY, "hour": 3600 * _SECOND, "minute": 60 * _SECOND, "second": _SECOND, "millisecond": 1000,
    "microsecond": 1,
}  # fmt: skip


def _cut(unit: str, span: Interval) -> Interval:
    """date_trunc of an interval: smaller parts are dropped, towards zero.

    >>> str(_cut("hour", Interval(1, 2, 3 * 3600 * 10**6 + 5))), str(_cut("year", Interval(-14, 2)))
    ('1 mon 2 days 03:00:00', '-1 years')
    """
    if unit in _MONTHS:
        return Interval(span.months - _whole(span.months, _MONTHS[unit])[1], 0, 0)
    if unit not in _TIMES:
        raise RowFailure(ERROR_DOMAIN)
    time = 0 if unit == "day" else span.microseconds - _whole(span.microseconds, _TIMES[unit])[1]
    return Interval(span.months, span.days, time)


TRUNCATED_SPANS = (*_MONTHS, *_TIMES)
"""Units of date_trunc of an interval."""


def _make_interval(
    years: int = 0, months: int = 0, weeks: int = 0, days: int = 0, hours: int = 0, mins: int = 0, secs: float = 0.0
) -> Interval:
    time = (hours * 3600 + mins * 60) * _SECOND + round(secs * _SECOND)
    return Interval(years * 12 + months, weeks * 7 + days, time)


INTERVAL_PARTS = ("years", "months", "weeks", "days", "hours", "mins", "secs")
"""The names of make_interval's arguments."""


def _make_time(hour: int, minute: int, second: float) -> Any:
    micros = round(second * _SECOND)
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= micros < 60 * _SECOND):
        raise RowFailure(ERROR_DOMAIN)
    return dt.time(hour, minute, micros // _SECOND, micros % _SECOND)


_add = SHELF.add
_add("trunc_interval", "text interval -> interval", _cut, "an interval without the parts below a unit")
_add("age", "timestamp timestamp -> interval", age, "from b to a in years, months and days")
_add("justify_hours", "interval -> interval", justify_hours, "24 hours as a day")
_add("justify_days", "interval -> interval", justify_days, "30 days as a month")
_add("justify_interval", "interval -> interval", justify_interval, "hours as days, days as months")
_add(
    "make_interval",
    "[int] [int] [int] [int] [int] [int] [float] -> interval",
    _make_interval,
    "of years, months, weeks, days, hours, mins and secs",
)
_add("make_time", "int int float -> time", _make_time, "of an hour, a minute and seconds")
