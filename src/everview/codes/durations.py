"""Parsing durations: `timedelta`, seconds as a number, or a text like "5s"."""

from __future__ import annotations

import datetime as dt
import re

from everview.errors import InputError

Duration = dt.timedelta | float | str
"""A duration: a timedelta, seconds, or "500ms", "5s", "2m", "1h", "10 minutes"."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WORDS = {"millisecond": "ms", "second": "s", "sec": "s", "minute": "m", "min": "m", "hour": "h", "day": "d"}
_TEXT = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*(?:(ms|s|m|h|d)|({'|'.join(_WORDS)})s?)\s*")


def seconds(duration: Duration, also: str = "") -> float:
    """The seconds of a duration.

    >>> seconds("5s"), seconds("1.5m"), seconds("10 minutes"), seconds(dt.timedelta(milliseconds=20)), seconds(3)
    (5.0, 90.0, 600.0, 0.02, 3.0)
    """
    found = None
    if isinstance(duration, dt.timedelta):
        found = duration.total_seconds()
    elif isinstance(duration, (int, float)) and not isinstance(duration, bool):
        found = float(duration)
    elif isinstance(duration, str) and (match := _TEXT.fullmatch(duration)):
        found = float(match[1]) * _UNITS[match[2] or _WORDS[match[3]]]
    if found is None or not 0 <= found < float("inf"):
        hint = f'write {also}"5s", "200ms", "2m", "1h" or a timedelta'
        raise InputError("E_DURATION", f"{duration!r} is not a duration", hint)
    return found
