"""Values as JSON for browsers, and back.

JavaScript's numbers are floats: 64-bit integers and decimals would lose digits, so they are texts. Times are ISO 8601
with a Z, bytes are base64, NaN and the infinities are texts. JSON values are unchanged.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from everview.codes.immutable import JsonNull
from everview.codes.scalars import article
from everview.errors import InputError
from everview.types import DataType

Convert = Callable[[Any], Any]

SAFE_BITS = 32
"""Integers of up to this many bits are JSON numbers."""


def rows_shown(types: Sequence[DataType], rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Rows as JSON.

    >>> from everview.types import INT, FLOAT, TIMESTAMP
    >>> rows_shown([INT, FLOAT, TIMESTAMP], [(2**60, 1.5, dt.datetime(2026, 1, 31))])
    [['1152921504606846976', 1.5, '2026-01-31T00:00:00Z']]
    """
    if not rows:
        return []
    converts = [_shower(t) for t in types]
    columns = [
        column if convert is None else [None if v is None else convert(v) for v in column]
        for convert, column in zip(converts, zip(*rows, strict=True), strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def dumped(value: Any) -> bytes:
    """JSON as bytes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_other).encode()


def _other(value: Any) -> Any:
    if isinstance(value, JsonNull):
        return None
    return int(value) if hasattr(value, "dtype") else str(value)


def columns_shown(names: Sequence[str], types: Sequence[DataType]) -> list[dict[str, Any]]:
    """Names and types of columns as JSON."""
    return [
        {"name": n, "type": repr(t.optional(False)), "nullable": t.nullable} for n, t in zip(names, types, strict=True)
    ]


def _shower(declared: DataType) -> Convert | None:
    kind = declared.kind
    if kind == "int":
        return None if 0 < abs(declared.width) <= SAFE_BITS else str
    if kind in ("bool", "str", "char", "enum", "json"):
        return None
    if kind in ("timestamp", "timestamptz"):
        return _moment
    if kind in ("tuple", "struct"):
        return _fields([_shower(t) or _same for t in declared.items], declared.names)
    if kind == "array":
        item = _shower(declared.items[0]) or _same
        return lambda value: [None if v is None else item(v) for v in value]
    if kind == "map":
        key, item = (_shower(t) or _same for t in declared.items)
        return lambda value: [[key(k), None if v is None else item(v)] for k, v in value.items()]
    return _SIMPLE.get(kind, str)


def _same(value: Any) -> Any:
    return value


def _float(value: float) -> Any:
    return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[repr(value)]


def _moment(value: dt.datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    return f"{value.isoformat()}Z"


_SIMPLE: dict[str, Convert] = {
    "float": _float,
    "bytes": lambda v: base64.b64encode(v).decode(),
    "date": lambda v: v.isoformat(),
    "time": lambda v: v.isoformat(),
}


def _fields(converts: Sequence[Convert], names: Sequence[str]) -> Convert:
    def convert(value: Any) -> Any:
        parts = value.values() if isinstance(value, Mapping) else value
        shown = [None if v is None else c(v) for c, v in zip(converts, parts, strict=True)]
        return dict(zip(names, shown, strict=True)) if names else shown

    return convert


# reading


def reader(declared: DataType, column: str) -> Convert:
    """A function from a JSON value, or a CSV text, to a column's value.

    >>> reader(DataType("int"), "x")("12"), reader(DataType("date"), "day")("2026-01-31")
    (12, datetime.date(2026, 1, 31))
    """
    read = _reader(declared)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            return read(value)
        except (ValueError, TypeError, KeyError, InvalidOperation, AttributeError, OverflowError):
            raise InputError(
                "E_TYPE",
                f"column {column!r}: {str(value)[:80]!r} is not {article(repr(declared))}",
                "see docs/server.md, Values",
            ) from None

    return convert


def _reader(declared: DataType) -> Convert:
    if declared.kind == "array":
        item = _reader(declared.items[0])
        return lambda value: [None if v is None else item(v) for v in _listed(value)]
    if declared.kind in ("tuple", "struct"):
        return _fields_read(declared)
    if declared.kind == "map":
        key, item = (_reader(t) for t in declared.items)
        return lambda value: {key(k): None if v is None else item(v) for k, v in value}
    return _READERS.get(declared.kind, _same)


def _fields_read(declared: DataType) -> Convert:
    reads = [_reader(t) for t in declared.items]

    def read(value: Any) -> Any:
        parts = [value.get(n) for n in declared.names] if isinstance(value, Mapping) else _listed(value)
        values = [None if v is None else r(v) for r, v in zip(reads, parts, strict=True)]
        return dict(zip(declared.names, values, strict=True)) if declared.names else tuple(values)

    return read


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _truth(value: Any) -> bool:
    return value if isinstance(value, bool) else {"true": True, "false": False, "t": True, "f": False}[value.lower()]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _decimal(value: Any) -> Decimal:
    if isinstance(value, (bool, list, tuple)):
        raise TypeError
    return Decimal(str(value))


def _read_moment(value: Any) -> dt.datetime:
    found = dt.datetime.fromisoformat(value)
    return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)


def _read_instant(value: Any) -> dt.datetime:
    found = dt.datetime.fromisoformat(value)
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


_READERS: dict[str, Convert] = {
    "int": _whole,
    "float": _number,
    "bool": _truth,
    "str": _text,
    "char": _text,
    "enum": _text,
    "decimal": _decimal,
    "numeric": _decimal,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "timestamp": _read_moment,
    "timestamptz": _read_instant,
    "uuid": uuid.UUID,
    "bytes": lambda v: base64.b64decode(v, validate=True),
}
