"""Python values as JSON, and back, exactly.

Values that JSON has are unchanged. Anything else is an object with one key that begins with `$`, which makes it
unambiguous: `{"$decimal": "1.50"}`, `{"$timestamp": "2026-01-31T12:00:00"}`, `{"$tuple": [1, 2]}`, and also `{"$dict":
[["a", 1]]}`. Lists and dictionaries come back as those of the database (`everview.codes.immutable`), which can be in
rows.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from everview.codes.immutable import JSON_NULL, FrozenDict, FrozenList, JsonNull
from everview.codes.intervals import Interval
from everview.errors import InputError

DEEPEST = 64
"""Maximum nesting depth of values."""

_SAME = frozenset({int, str, bool, type(None)})


def _days(value: dt.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


_TAGS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "timestamp": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "interval": (dt.timedelta, _days, lambda v: dt.timedelta(*v)),
    "span": (Interval, lambda v: [v.months, v.days, v.microseconds], lambda v: Interval(*v)),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "bytes": (bytes, lambda v: base64.b64encode(v).decode(), lambda v: base64.b64decode(v, validate=True)),
    "null": (JsonNull, lambda v: 0, lambda v: JSON_NULL),
}
"""Encodings of values that JSON lacks; a datetime is a date too, so it comes first."""


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it.

    >>> plain((1, decimal.Decimal("1.50"), [b"x"]))
    {'$tuple': [1, {'$decimal': '1.50'}, [{'$bytes': 'eA=='}]]}
    """
    kind = type(value)
    if kind in _SAME:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if depth > DEEPEST:
        raise InputError("E_DEPTH", "a value is nested too deeply to be sent", f"up to {DEEPEST} levels are taken")
    if isinstance(value, tuple):
        return {"$tuple": [plain(v, depth + 1) for v in value]}
    if isinstance(value, list):
        return [plain(v, depth + 1) for v in value]
    if isinstance(value, Mapping):
        return {"$dict": [[plain(k, depth + 1), plain(v, depth + 1)] for k, v in value.items()]}
    for tag, (of, write, _) in _TAGS.items():
        if isinstance(value, of):
            return {f"${tag}": write(value)}
    if hasattr(value, "item") and hasattr(value, "dtype"):  # one of NumPy's
        return plain(value.item(), depth)
    if value is ...:
        return {"$any": 0}
    raise InputError("E_TYPE", f"a value of type {kind.__name__} cannot be sent to a server", "give a column's value")


def value_of(data: Any, depth: int = 0) -> Any:
    """The value of its JSON form.

    >>> value_of(plain((1.5, None, {"a": [dt.date(2026, 1, 31)]})))
    (1.5, None, {'a': [datetime.date(2026, 1, 31)]})
    """
    if not isinstance(data, (list, dict)):
        return data
    if depth > DEEPEST:
        raise _wrong("it is nested too deeply")
    if isinstance(data, list):
        return FrozenList([value_of(v, depth + 1) for v in data])
    if len(data) != 1:
        raise _wrong("an object has not one key")
    ((tag, body),) = data.items()
    try:
        if tag == "$tuple" and isinstance(body, list):
            return tuple(value_of(v, depth + 1) for v in body)
        if tag == "$dict":
            return FrozenDict({value_of(k, depth + 1): value_of(v, depth + 1) for k, v in body})
        if tag == "$float":
            return float(body)
        if tag == "$any":
            return ...
        return _TAGS[tag[1:]][2](body)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        raise _wrong(f"{str(data)[:80]} is not a value") from None


def rows_written(rows: Any) -> list[Any]:
    """Rows as JSON: a row is a list of its values, or one value if it is something else (a dictionary, a mistake).

    >>> rows_written([(1, None), {"x": 2}])
    [[1, None], {'$dict': [['x', 2]]}]
    """
    try:
        found = list(rows)
    except TypeError:
        raise InputError("E_TYPE", f"{rows!r} are not rows", "give a list of tuples or dicts, or a table") from None
    return [[plain(v) for v in row] if isinstance(row, (tuple, list)) else plain(row) for row in found]


def rows_of(data: Any) -> list[Any]:
    """Parse rows from JSON.

    >>> rows_of([[1, None], {'$dict': [['x', 2]]}])
    [(1, None), {'x': 2}]
    """
    if not isinstance(data, list):
        raise _wrong("rows are no list")
    return [tuple(value_of(v) for v in row) if isinstance(row, list) else value_of(row) for row in data]


def parsed(text: bytes | str) -> Any:
    """Parse untrusted JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _wrong("it is not JSON") from None


def _wrong(what: str) -> InputError:
    return InputError("E_MESSAGE", f"a message cannot be read: {what}", "see docs/server.md for what is understood")
