"""Constants: SQL literals, intervals, and constant expressions, which are computed once."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from sqlglot import exp

from everview.codes import intervals
from everview.codes.codec import Codec
from everview.codes.digits import float_of
from everview.codes.immutable import FrozenList
from everview.codes.interner import Interner
from everview.codes.scalars import DIGITS
from everview.errors import EverviewError, PlanError
from everview.expr import moment_texts
from everview.expr.evaluate import evaluate
from everview.expr.library.strings import as_bytea
from everview.expr.nodes import Call, Expr, Literal
from everview.expr.resolve import literal
from everview.expr.string_functions import RowFailure
from everview.expr.text_conversion import aware, of_text, rounded
from everview.sql.scalar.type_names import in_words
from everview.sql.text.consumed_parts import understood
from everview.sql.text.dialects import PRINTING
from everview.sql.text.error_positions import Source
from everview.types import FREE, MOST_DIGITS, DataType, numeric

DAY = 86_400_000_000
"""Microseconds of a day."""

MICROSECONDS = {
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
DAYS = {"day": 1, "week": 7}
MONTHS = {"month": 1, "quarter": 3, "year": 12}

EMPTY = FrozenList()
"""The empty array."""


def number(node: exp.Literal) -> Expr:
    """42 is an int, 1.5 a decimal, 1e3 a float.

    >>> [number(exp.Literal.number(n)).type for n in ("42", "1.50", "1e3")]
    [int, decimal(2), float]
    """
    text = node.name
    try:
        if "e" in text.lower():
            return literal(float_of(text))
        if _is_wide(text):
            return _wide(text)
        return literal(Decimal(text) if "." in text else int(text))
    except OverflowError:
        raise PlanError("E_RANGE", f"{text} does not fit float", "from 1e-307 to 1.7e308") from None
    except (ValueError, InvalidOperation):
        raise PlanError("E_SYNTAX", f"{text} is not a number", "write 42, 1.5 or 1e3") from None


def _is_wide(text: str) -> bool:
    """Whether a number has too many digits for a decimal.

    >>> _is_wide("1.5"), _is_wide("0.0905995499059094990")
    (False, True)
    """
    return len(text.lstrip("-").replace(".", "").lstrip("0")) > DIGITS or len(text.partition(".")[2]) > DIGITS


def _wide(text: str) -> Expr:
    """A number with many digits: an int if it fits, else a numeric."""
    value = Decimal(text)
    if "." not in text and -(2**63) <= int(text) < 2**63:
        return literal(int(text))
    scale = len(text.partition(".")[2])
    if len(value.as_tuple().digits) > MOST_DIGITS or scale > MOST_DIGITS:
        raise PlanError("E_RANGE", f"{text} has too many digits", f"{MOST_DIGITS} are the most; write it as 1e3")
    return Literal(numeric(scale), value)


def folded(expr: Expr, interner: Interner, zeros: bool = False) -> Expr:
    """The value of a constant expression, if it has one; what would fail for every row is left to fail there."""
    if not isinstance(expr, Call) or not all(isinstance(a, Literal) for a in expr.args) or expr.type.kind == "tuple":
        return expr
    try:
        result = evaluate((expr,), None, np.zeros((1, 1), dtype=np.int64), interner)
    except EverviewError:
        return expr
    if result.codes.shape[1] == 0:
        return expr
    value = Codec((expr.type,), ("x",), interner).decode_rows(result.codes)[0][0]
    if isinstance(value, float) and (value == 0 or math.isnan(value)) and not zeros:
        return expr  # plans compare literals with ==
    return Literal(expr.type, value)


def known(expr: Expr, interner: Interner) -> Expr:
    """The value of a constant expression that does not become part of a plan: also 0.0 and NaN."""
    return folded(expr, interner, zeros=True)


def text_as(value: str, target: DataType, at: exp.Expr, source: Source) -> Expr:
    """A quoted constant next to another type is a constant of that type: day >= '1994-01-01'."""
    try:
        if target.kind == "timestamptz":
            moment = moment_texts.parse_moment(value)
            there = moment if moment.tzinfo else moment_texts.in_zone(moment, source.zone)
            return Literal(target.optional(False), aware(there))
        if target.kind == "timestamp" and source.dialect not in PRINTING:  # there, an offset counts
            return Literal(target.optional(False), _in_utc(moment_texts.parse_moment(value)))
        if target.kind == "bytes" and source.dialect == "duckdb":
            return Literal(target.optional(False), _blob(value))
        return Literal(target.optional(False), _parsed(value if target.kind in _WHOLE else value.strip(), target))
    except OverflowError:
        raise source.error(at, "E_RANGE", f"{value!r} does not fit {in_words(target.optional(False))}") from None
    except (ValueError, InvalidOperation, KeyError):
        raise source.error(
            at,
            "E_TYPE",
            f"{value!r} is not a valid {in_words(target.optional(False))}",
            "correct the constant, or cast the other side",
        ) from None


def _in_utc(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo is None else aware(moment).replace(tzinfo=None)


def _blob(text: str) -> bytes:
    r"""DuckDB's BLOB: \xAA is one byte, anything else must be ASCII.

    >>> _blob(r"a\xFF")
    b'a\xff'
    """
    plain = text.encode("ascii")
    if re.search(rb"\\(?!x[0-9A-Fa-f]{2})", plain):
        raise ValueError(text)
    return re.sub(rb"\\x(..)", lambda found: bytes.fromhex(found[1].decode()), plain)


def number_as(value: str, beside: DataType, at: exp.Expr, source: Source) -> Expr:
    """A quoted constant next to a decimal: a number with the digits as written, as in PostgreSQL.

    >>> number_as("1.501", DataType("decimal", scale=2), exp.Null(), Source("")).type
    decimal(3)
    """
    try:
        found = Decimal(value.strip())
    except InvalidOperation:
        found = Decimal("NaN")
    if not found.is_finite() or "_" in value or -int(found.as_tuple().exponent) <= beside.scale:
        return text_as(value, replace(beside, width=0) if beside.kind == "decimal" else beside, at, source)
    return _plain(format(found, "f"))


def _plain(text: str) -> Expr:
    """A number written with a point, as a constant."""
    return _wide(text) if _is_wide(text) else literal(Decimal(text))


_WHOLE = ("enum", "char", "array", "struct", "bytes")
"""Kinds whose parsers handle blanks around a text themselves."""


def list_or_item(value: Expr, whole: DataType, at: exp.Expr, source: Source) -> Expr:
    """A quoted constant next to an array: an array if written as one, else an element."""
    if not isinstance(value, Literal) or value.type.kind != "str" or value.value is None:
        return value
    if value.value.strip().startswith("{"):
        return text_as(value.value, whole, at, source)
    return value if whole.items[0].kind == "str" else text_as(value.value, whole.items[0], at, source)


def _char(value: str, target: DataType) -> str:
    kept = value.rstrip(" ")
    if target.width and len(kept) > target.width:
        raise OverflowError(value)
    return kept


def _parsed(value: str, target: DataType) -> Any:
    match target.kind:
        case "char":
            return _char(value, target)
        case "numeric":
            return checked(rounded(_finite(value), target.scale), target)
        case "int" if target.width:
            return of_text(target)(value)
        case "time" | "interval" | "uuid" | "json" | "enum" | "array" | "struct" | "timestamptz":
            return of_text(target)(value)
        case "bytes":
            try:
                return as_bytea(value)
            except RowFailure:
                raise ValueError(value) from None
        case "int":
            return int(value)
        case "float":
            return float_of(value)
        case "decimal":
            return checked(rounded(_finite(value), target.scale), target)
        case "date":
            return moment_texts.date_of(value)
        case "timestamp":
            return moment_texts.timestamp_of(value)
        case "bool":
            return of_text(target)(value)
    raise ValueError(value)


def _finite(text: str) -> Decimal:
    """A finite number: numerics are never infinite or NaN here."""
    found = Decimal(text)
    if not found.is_finite() or "_" in text:
        raise ValueError(text)
    return found


def without_difference(node: exp.Binary) -> exp.Binary:
    """A comparison of a difference of moments with an interval, rewritten as one of moments.

    >>> import sqlglot
    >>> without_difference(sqlglot.parse_one("now() - ts < interval '5 minutes'", read="postgres")).sql("postgres")
    "CURRENT_TIMESTAMP < ts + INTERVAL '5 MINUTES'"
    """
    left, right = node.this.unnest(), node.expression.unnest()
    for difference, distance, ordered in ((left, right, True), (right, left, False)):
        is_difference = isinstance(difference, exp.Sub) and not isinstance(difference.expression, exp.Interval)
        if is_difference and isinstance(distance, exp.Interval):
            moved = exp.Add(this=difference.expression, expression=distance)
            sides = (difference.this, moved)
            return type(node)(this=sides[not ordered], expression=sides[ordered])
    return node


def interval(node: exp.Interval, source: Source) -> tuple[int, int]:
    """An interval as (months, microseconds).

    >>> import sqlglot
    >>> interval(sqlglot.parse_one("interval '1 year 3 days'", read="postgres"), Source(""))
    (12, 259200000000)
    """
    found = span(node, source)
    return found.months, found.days * DAY + found.microseconds


def is_interval(text: str) -> bool:
    """Whether a quoted constant is an interval, not a moment.

    >>> is_interval("2 hours"), is_interval("2024-01-31")
    (True, False)
    """
    try:
        intervals.parse(text, "second")
    except ValueError:
        return False
    return re.match(r"\s*\d+-\d+-\d+", text) is None


def span(node: exp.Interval, source: Source) -> intervals.Interval:
    """A constant interval."""
    text = ""
    if isinstance(node.this, exp.Literal):
        text = str(node.this.name)
        understood(node.this)  # quoted or not
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        text, unit = _fields(text, unit, source), None
    name = intervals.unit_name(unit.name) if unit is not None else "second"
    if name is None:
        raise source.refuse(node, f"there is no unit {node.text('unit')!r}", _UNITS)
    node.args.get("fraction_in_string")
    try:
        found = intervals.parse(text, name)
    except ValueError:
        raise _no_interval(node, text, source) from None
    if not intervals.in_range(found):
        raise source.error(node, "E_RANGE", f"{text!r} is too long for an interval")
    if unit is not None and not re.fullmatch(r"\s*[+-]?[\d.]+\s*", text) and intervals.cut(found, name) != found:
        raise source.refuse(node, f"{text!r} has more than whole {name}s", "leave the unit behind it out")
    cuts = unit is not None and name in CUT and isinstance(node.this, exp.Literal) and node.this.is_string
    return intervals.cut(found, name) if cuts and source.dialect in PRINTING else found


CUT = ("year", "month", "day", "hour", "minute")
"""Units of which INTERVAL '1.5' HOUR has whole ones in PostgreSQL: one hour; '1.5 hours' is an hour and a half."""


def _fields(text: str, span: exp.IntervalSpan, source: Source) -> str:
    """The text of an interval with named fields: '3 04:05' DAY TO MINUTE.

    >>> from sqlglot import parse_one
    >>> [_fields(t, parse_one(f"interval '1' {u}", read="oracle").args["unit"], Source("")) for t, u in
    ...  (("1-2", "year to month"), ("3 4", "day to hour"), ("10:30", "minute to second"))]
    ['1-2', '3 days 4 hours', '0:10:30']
    """
    first, last = span.this.name.lower(), span.expression.name.lower()
    sign, body = ("-", text.strip()[1:]) if text.strip().startswith("-") else ("", text.strip())
    forms = {
        ("year", "month"): r"\d+-\d+",
        ("day", "hour"): r"\d+ +\d+",
        ("day", "minute"): r"\d+ +\d+:\d+",
        ("day", "second"): r"\d+ +\d+:\d+:\d+(\.\d+)?",
        ("hour", "minute"): r"\d+:\d+",
        ("hour", "second"): r"\d+:\d+:\d+(\.\d+)?",
        ("minute", "second"): r"\d+:\d+(\.\d+)?",
    }
    form = forms.get((first, last))
    if form is None or not re.fullmatch(form, body):
        what = f"{text!r} is not from {first} to {last}"
        raise source.error(span, "E_TYPE", what, "interval '1-2' year to month, interval '3 04:05' day to minute")
    if (first, last) == ("minute", "second"):
        return f"{sign}0:{body}"
    if first == "day":
        days, rest = body.split()
        clock = f"{sign}{rest} hours" if last == "hour" else f"{sign}{rest}"
        return f"{sign}{days} days {clock}"
    return sign + body


_UNITS = "use year, month, week, day, hour, minute, second"


def _no_interval(node: exp.Interval, text: str, source: Source) -> PlanError:
    words = text.split()
    if len(words) % 2 or not words:
        return source.refuse(
            node, "this interval is not understood", "write interval '3' day or interval '1 year 2 hours'"
        )
    for amount, unit in zip(words[::2], words[1::2], strict=True):
        if intervals.unit_name(unit) is None:
            return source.refuse(node, f"there is no unit {unit!r}", _UNITS)
        if not amount.lstrip("+-").replace(".", "", 1).isdecimal():
            return source.refuse(node, f"{amount!r} is not a number of {intervals.unit_name(unit)}s")
    return source.refuse(node, "this interval is not understood", "write interval '3' day or interval '1 year 2 hours'")


def checked(value: Decimal, target: DataType) -> Decimal:
    """A number checked to have no more digits than its type."""
    if value and target.width and target.scale < FREE and value.adjusted() + target.scale >= target.width:
        raise OverflowError(value)
    return value


def is_quoted(value: Expr) -> bool:
    """Whether it is a quoted constant whose type is still open."""
    return isinstance(value, Literal) and value.type.kind == "str" and value.value is not None


def is_null(value: Expr) -> bool:
    """Whether it is the constant NULL."""
    return isinstance(value, Literal) and value.value is None
