"""Functions of dates and timestamps."""

from __future__ import annotations

import calendar
import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from everview.codes.intervals import DAY, Interval
from everview.expr import moment_texts
from everview.expr.library import date_formats, number_formats
from everview.expr.library.signatures import Shelf
from everview.expr.string_functions import RowFailure
from everview.kernels.expressions.scalars import ERROR_CAST, ERROR_DOMAIN, ERROR_OVERFLOW

SHELF = Shelf()

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


def _made(make: Callable[[], Any]) -> Any:
    """A date or timestamp, or the row fails."""
    try:
        return make()
    except (ValueError, OverflowError):
        raise RowFailure(ERROR_DOMAIN) from None


def _make_date(year: int, month: int, day: int) -> dt.date:
    return dt.date(*_checked(year, month, day))


def _checked(year: int, month: int, day: int) -> tuple[int, int, int]:
    _made(lambda: dt.date(year, month, day))
    return year, month, day


def _make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: float) -> dt.datetime:
    _checked(year, month, day)
    if not (0 <= hour <= 24 and 0 <= minute < 60 and 0 <= second <= 60) or (hour == 24 and (minute or second)):
        raise RowFailure(ERROR_DOMAIN)
    micros = round(second * 1e6)
    whole = dt.datetime(year, month, day)
    moved: dt.datetime = _made(lambda: whole + dt.timedelta(hours=hour, minutes=minute, microseconds=micros))
    return moved


def date_bin(stride: int | Interval, moment: dt.datetime, origin: dt.datetime) -> dt.datetime:
    """The start of the interval that contains a moment: intervals are `stride` microseconds long, one starts at origin.

    >>> date_bin(900_000_000, dt.datetime(2026, 1, 1, 12, 44), dt.datetime(2026, 1, 1))
    datetime.datetime(2026, 1, 1, 12, 30)
    """
    if isinstance(stride, Interval):
        if stride.months:
            raise RowFailure(ERROR_DOMAIN)
        stride = stride.days * DAY + stride.microseconds
    if stride <= 0:
        raise RowFailure(ERROR_DOMAIN)
    passed = (moment - origin) // MICROSECOND
    found: dt.datetime = _made(lambda: origin + (passed // stride) * stride * MICROSECOND)
    return found


def _from_seconds(seconds: float) -> dt.datetime:
    if math.isnan(seconds) or math.isinf(seconds):
        raise RowFailure(ERROR_OVERFLOW)
    found: dt.datetime = _made(lambda: EPOCH + dt.timedelta(microseconds=round(seconds * 1e6)))
    return found


def _to_char(value: Any, template: str) -> str:
    if isinstance(value, (int, float, Decimal)):
        return number_formats.written(value, template)
    if isinstance(value, Interval):
        return date_formats.written_span(value, template)
    moment = value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)
    return date_formats.written(moment, template)


def _at_zone(zone: str | Interval) -> str:
    """The zone that AT TIME ZONE means; an interval is the distance from UTC."""
    if isinstance(zone, str):
        return moment_texts.at_zone(zone)
    if zone.months or zone.days or zone.microseconds % 1_000_000:
        raise RowFailure(ERROR_DOMAIN)
    return moment_texts.offset_text(zone.microseconds // 1_000_000)


def _read(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A moment read in a text, or the row fails."""

    def run(text: str) -> Any:
        try:
            return parse(text)
        except (ValueError, OverflowError):
            raise RowFailure(ERROR_CAST) from None

    return run


def _last_day(day: dt.date) -> dt.date:
    day = day.date() if isinstance(day, dt.datetime) else day
    return dt.date(day.year, day.month, calendar.monthrange(day.year, day.month)[1])


def extracted(unit: str, moment: Any) -> int:
    """Fields of a date that the VM does not support.

    >>> [extracted(u, dt.datetime(2027, 1, 1, 0, 0, 1, 500)) for u in ("week", "isoyear", "century", "microseconds")]
    [53, 2026, 21, 1000500]
    """
    match unit:
        case "week":
            return int(moment.isocalendar().week)
        case "isoyear":
            return int(moment.isocalendar().year)
        case "century":
            return int((moment.year + 99) // 100)
        case "millennium":
            return int((moment.year + 999) // 1000)
        case "decade":
            return int(moment.year // 10)
        case "julian":
            return int(moment.toordinal() + 1721425)
        case "microseconds":
            return int(moment.second * 1_000_000 + moment.microsecond)
    raise RowFailure(ERROR_DOMAIN)


EXTRACTED = ("week", "isoyear", "century", "millennium", "decade", "julian", "microseconds")
"""The fields of `extracted`."""

TRUNCATED = ("decade", "century", "millennium", "milliseconds", "microseconds")
"""Units of date_trunc that the VM does not support."""


def truncated(unit: str, moment: dt.datetime) -> dt.datetime:
    """The start of the unit that contains a moment.

    >>> truncated("century", dt.datetime(2026, 1, 31))
    datetime.datetime(2001, 1, 1, 0, 0)
    """
    match unit:
        case "decade":
            return _year(moment.year // 10 * 10)
        case "century":
            return _year((moment.year - 1) // 100 * 100 + 1)
        case "millennium":
            return _year((moment.year - 1) // 1000 * 1000 + 1)
        case "milliseconds":
            return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        case "microseconds":
            return moment
    raise RowFailure(ERROR_DOMAIN)


COUNTED = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""Units that `units_between` counts."""


def units_between(unit: str, end: dt.datetime, start: dt.datetime) -> int:
    """The number of unit boundaries between two moments.

    >>> units_between("month", dt.datetime(2026, 3, 1), dt.datetime(2026, 1, 31))
    2
    """
    return _number(unit, end) - _number(unit, start)


def _number(unit: str, moment: dt.datetime) -> int:
    match unit:
        case "year":
            return moment.year
        case "quarter":
            return moment.year * 4 + (moment.month - 1) // 3
        case "month":
            return moment.year * 12 + moment.month
        case "week":
            return (moment.toordinal() - 1) // 7
    seconds = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}[unit]
    return (moment - EPOCH) // dt.timedelta(seconds=seconds)


def _year(number: int) -> dt.datetime:
    found: dt.datetime = _made(lambda: dt.datetime(number, 1, 1))
    return found


_add = SHELF.add
_add("make_date", "int int int -> date", _make_date, "of a year, a month and a day")
_add(
    "make_timestamp",
    "int int int int int float -> timestamp",
    _make_timestamp,
    "of a year, a month, a day, an hour, a minute and seconds",
)
_add(
    "date_bin",
    "int timestamp timestamp -> timestamp|interval timestamp timestamp -> timestamp",
    date_bin,
    "where the interval of a microseconds begins",
)
_add("epoch_to_timestamp", "float -> timestamp", _from_seconds, "seconds since 1970 as a timestamp")
_add(
    "to_char",
    "timestamp text -> text|number text -> text|interval text -> text",
    _to_char,
    "a date, number or interval by a template",
)
_add("parse_timestamp", "text text -> timestamp", date_formats.parsed, "a text read by a template")
_add(
    "to_date", "text text -> date", lambda text, how: date_formats.parsed(text, how).date(), "a text read by a template"
)
_add("to_number", "text text -> numeric", number_formats.read, "a number from its text, by a template")
_add("at_zone", "text -> text|interval -> text", _at_zone, "the zone that AT TIME ZONE means")
_add("read_date", "text -> date", _read(moment_texts.date_of), "a date in any form that PostgreSQL reads")
_add(
    "read_timestamp", "text -> timestamp", _read(moment_texts.timestamp_of), "the same of a timestamp, without its zone"
)
_add("last_day", "date -> date|timestamp -> date", _last_day, "the last day of the month")
_add("dayname", "date -> text|timestamp -> text", lambda d: calendar.day_name[d.weekday()], "the day's English name")
_add("monthname", "date -> text|timestamp -> text", lambda d: calendar.month_name[d.month], "the month's English name")
_add("extract_more", "text timestamp -> int", extracted, "a part of a date by its name")
_add("trunc_more", "text timestamp -> timestamp", truncated, "where a unit begins")
_add("units_between", "text timestamp timestamp -> int", units_between, "units from c to b")
_add("isfinite", "timestamp -> bool", lambda moment: True, "whether it is a moment: always")
