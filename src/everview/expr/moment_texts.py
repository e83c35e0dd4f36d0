"""Texts of dates, times and timestamps, in the forms that PostgreSQL reads.

A text is taken apart into a day, a time of day and a zone. A type then uses what it needs, as PostgreSQL does: a date
drops the time, a timestamp drops the zone, a timestamptz needs one (the session's, if there is none).

Only forms that mean the same under every DateStyle are read. `1/8/1999` is in January for some and in August for
others, so it is refused. The ISO forms come first and are read without the slow patterns: thousands of constants are.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

SECOND = 1_000_000
DAY = 86_400 * SECOND

_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_ISO_MOMENT = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{3}|\.\d{6})?", re.ASCII)

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
          "december")  # fmt: skip
_MONTH = "(?P<name>" + "|".join((*_NAMES, *MONTHS, "sept")) + r")\.?"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+)?"

_FORMS = (
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})",
    r"(?P<year>\d{4})/(?P<month>\d{1,2})/(?P<day>\d{1,2})",
    r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})",
    r"(?P<year>\d{4})\.(?P<nth>\d{3})",
    rf"(?P<year>\d{{4}})-{_MONTH}-(?P<day>\d{{1,2}})",
    rf"{_WEEKDAY}{_MONTH}[\s-]\s*(?P<day>\d{{1,2}})(?:\s*,\s*|[\s-]\s*)(?P<year>\d{{4}})",
    rf"{_WEEKDAY}(?P<day>\d{{1,2}})[\s-]\s*{_MONTH}(?:\s*,\s*|[\s-]\s*)(?P<year>\d{{4}})",
)
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<part>\d*))?)?(?:\s*(?P<half>[ap]m)\b)?"
_DIGITS = r"(?P<hour>\d{2})(?P<minute>\d{2})(?P<second>\d{2})(?:\.(?P<part>\d*))?"
_ZONE = r"(?:\s*(?P<zone>Z|[+-]\d{1,2}(?::?\d{2})?(?::\d{2})?|[A-Za-z][\w/+-]*))?"
_ERA = r"(?:\s+AD)?"


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE | re.ASCII)


_MOMENTS = tuple(
    _pattern(rf"{form}(?:(?:\s+|T){clock}{_ZONE})?{_ERA}") for form in _FORMS for clock in (_CLOCK, _DIGITS)
)
_HOURS = _pattern(rf"{_FORMS[0]}[ T](?P<hour>\d{{2}})")
_DAY_IN_ZONE = tuple(_pattern(rf"{form}{_ZONE}") for form in _FORMS)
_TIMES = (_pattern(_CLOCK), _pattern(_DIGITS))


def parts_of(text: str) -> tuple[dt.date, int, str | None]:
    """The day, the microseconds after midnight (which may be a whole day), and the zone; ValueError if it is none.

    >>> parts_of("January 8, 1999 04:05 PM"), parts_of("2024-06-30T23:59:60Z")
    ((datetime.date(1999, 1, 8), 57900000000, None), (datetime.date(2024, 6, 30), 86400000000, 'Z'))
    """
    found = _first((*_MOMENTS, *_DAY_IN_ZONE, _HOURS), text.strip())
    named = found.groupdict()
    year = int(named["year"])
    if named.get("nth"):
        day = dt.date(year, 1, 1) + dt.timedelta(days=int(named["nth"]) - 1)
        if day.year != year:
            raise ValueError(text)
    else:
        name = named.get("name")
        month = MONTHS.index(name[:3].lower()) + 1 if name else int(named["month"])
        day = dt.date(year, month, int(named["day"]))
    zone = named.get("zone")
    if zone is not None:
        zone_of(by_offset(zone))  # it must exist; BC is none, and years before 1 are not supported
    return day, _micros(named, text) if named.get("hour") else 0, zone


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str]:
    for pattern in patterns:
        if (found := pattern.fullmatch(text)) is not None:
            return found
    raise ValueError(text)


def _micros(named: dict[str, str | None], text: str) -> int:
    """Microseconds after midnight. A second 60 is the next minute's first, and 24:00 the next day's."""
    hour, minute, second = (int(named.get(name) or 0) for name in ("hour", "minute", "second"))
    half = (named.get("half") or "").lower()
    if half:
        if not 0 < hour <= 12:
            raise ValueError(text)
        hour = hour % 12 + 12 * (half == "pm")
    micros = round(Decimal("0." + (named.get("part") or "0")) * SECOND)
    found = ((hour * 60 + minute) * 60 + second) * SECOND + micros
    if minute > 59 or second > 60 or (second == 60 and micros) or found > DAY:
        raise ValueError(text)
    return found


def date_of(text: str) -> dt.date:
    """A date; the time of a moment is dropped.

    >>> [str(date_of(t)) for t in ("2024-2-3", "08-Jan-1999", "1999-01-08 04:05:06", "19990108")]
    ['2024-02-03', '1999-01-08', '1999-01-08', '1999-01-08']
    """
    if _ISO_DAY.fullmatch(text):
        return dt.date.fromisoformat(text)
    return parts_of(text)[0]


def timestamp_of(text: str) -> dt.datetime:
    """A timestamp; a zone is dropped, not converted.

    >>> str(timestamp_of("2024-06-30 12:30:00.1234567+05")), str(timestamp_of("2024-06-30 24:00"))
    ('2024-06-30 12:30:00.123457', '2024-07-01 00:00:00')
    """
    if _ISO_MOMENT.fullmatch(text):
        return dt.datetime.fromisoformat(text)
    day, micros, _ = parts_of(text)
    return dt.datetime.combine(day, dt.time()) + dt.timedelta(microseconds=micros)


def parse_moment(text: str) -> dt.datetime:
    """A moment, with a zone if the text has one."""
    day, micros, zone = parts_of(text)
    moment = dt.datetime.combine(day, dt.time()) + dt.timedelta(microseconds=micros)
    return moment if zone is None else in_zone(moment, by_offset(zone))


def time_of(text: str) -> dt.time:
    """A time of day; 24:00 is none here, as Python has no such time.

    >>> [str(time_of(t)) for t in ("4:5:6", "04:05 PM", "040506", "12:30:15.5")]
    ['04:05:06', '16:05:00', '04:05:06', '12:30:15.500000']
    """
    named = _first(_TIMES, text.strip()).groupdict()
    micros = _micros(named, text)
    if micros >= DAY:
        raise ValueError(text)
    return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)).time()


# ---- zones

_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::(\d{2}))?", re.ASCII)

ABBREVIATIONS = {
    "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CST": -6, "CDT": -5, "EST": -5, "EDT": -4, "AKST": -9, "AKDT": -8,
    "BST": 1, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9,
    "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
}  # fmt: skip
"""Zones that are abbreviated, in hours from UTC: a moment's own, whatever the season (PostgreSQL's defaults)."""


def by_offset(name: str) -> str:
    """An abbreviated zone by its offset, which comes before places of that name; others as they are.

    >>> by_offset("pst"), by_offset("Europe/Oslo")
    ('-08:00', 'Europe/Oslo')
    """
    hours = ABBREVIATIONS.get(name.upper())
    return name if hours is None else offset_text(hours * 3600)


def offset_text(seconds: int) -> str:
    """
    >>> offset_text(-12600)
    '-03:30'
    """
    minutes, left = divmod(abs(seconds), 60)
    tail = f":{left:02}" if left else ""
    return f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}{tail}"


_POSIX = re.compile(r"(?:[A-Za-z]{3,}|<[\w+-]+>)?([+-])(\d{1,2})(?::?(\d{2}))?(?::(\d{2}))?", re.ASCII)


def at_zone(name: str) -> str:
    """The zone that AT TIME ZONE means: there, as in POSIX, '+02' and 'UTC+2' are two hours *west* of Greenwich.

    >>> at_zone("+02"), at_zone("UTC-3:30"), at_zone("Europe/Oslo"), at_zone("CET")
    ('-02:00', '+03:30', 'Europe/Oslo', '+01:00')
    """
    found = _POSIX.fullmatch(name.strip())
    if found is None:
        return by_offset(name)
    seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
    return offset_text(seconds if found[1] == "-" else -seconds)


def in_zone(moment: dt.datetime, zone: str) -> dt.datetime:
    """The moment of a local time in a zone; the later of two if ambiguous, and in a gap as if there were none."""
    place = zone_of(zone)
    first, second = moment.replace(tzinfo=place, fold=0), moment.replace(tzinfo=place, fold=1)
    before, after = first.utcoffset(), second.utcoffset()
    return second if before is not None and after is not None and before > after else first


def zone_of(name: str) -> dt.tzinfo:
    """A time zone by its name, or by its ISO 8601 offset; ValueError if there is none.

    >>> str(zone_of("Europe/Oslo")), zone_of("+01:30")
    ('Europe/Oslo', datetime.timezone(datetime.timedelta(seconds=5400)))
    """
    import zoneinfo

    if name.upper() in ("UTC", "Z", "GMT"):
        return dt.UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        seconds = int(offset[2]) * 3600 + int(offset[3] or 0) * 60 + int(offset[4] or 0)
        return dt.timezone(dt.timedelta(seconds=-seconds if offset[1] == "-" else seconds))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        pass
    found = next((z for z in zoneinfo.available_timezones() if z.lower() == name.lower()), None)
    if found is None:
        raise ValueError(f"there is no time zone {name!r}")
    return zoneinfo.ZoneInfo(found)
