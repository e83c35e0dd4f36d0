"""Constants: literals as SQL writes them, intervals, and expressions of constants, which are computed once."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from sqlglot import exp

from everview.codes.codec import Codec
from everview.codes.interner import Interner
from everview.errors import EverviewError, PlanError
from everview.expr.evaluate import evaluate
from everview.expr.nodes import Call, Expr, Literal
from everview.expr.resolve import literal
from everview.sql.parts import understood
from everview.sql.places import Source
from everview.types import DataType

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


def number(node: exp.Literal) -> Expr:
    """42 is an int, 1.5 a decimal, 1e3 a float.

    >>> [number(exp.Literal.number(n)).type for n in ("42", "1.50", "1e3")]
    [int, decimal(2), float]
    """
    text = node.name
    try:
        if "e" in text.lower():
            return literal(float(text))
        return literal(Decimal(text) if "." in text else int(text))
    except (ValueError, InvalidOperation):
        raise PlanError("E_SYNTAX", f"{text} is no number", "write 42, 1.5 or 1e3") from None


def folded(expr: Expr, interner: Interner) -> Expr:
    """The value of an expression of constants, if it has one; what would fail for every row is left to fail there."""
    if not isinstance(expr, Call) or not all(isinstance(a, Literal) for a in expr.args) or expr.type.kind == "tuple":
        return expr
    try:
        result = evaluate((expr,), None, np.zeros((1, 1), dtype=np.int64), interner)
    except EverviewError:
        return expr
    if result.codes.shape[1] == 0:
        return expr
    value = Codec((expr.type,), ("x",), interner).decode_rows(result.codes)[0][0]
    if isinstance(value, float) and (value == 0 or math.isnan(value)):
        return expr  # plans compare literals with ==
    return Literal(expr.type, value)


def text_as(value: str, target: DataType, at: exp.Expr, source: Source) -> Expr:
    """A quoted constant beside something of another type is a constant of that type: day >= '1994-01-01'."""
    try:
        return Literal(target.optional(False), _parsed(value.strip(), target))
    except (ValueError, InvalidOperation, KeyError):
        raise source.error(
            at,
            "E_TYPE",
            f"{value!r} cannot be read as {target.optional(False)!r}",
            "correct the constant, or cast the other side",
        ) from None


def _parsed(value: str, target: DataType) -> Any:
    match target.kind:
        case "int":
            return int(value)
        case "float":
            return float(value)
        case "decimal":
            return round(Decimal(value), target.scale)
        case "date":
            return dt.date.fromisoformat(value)
        case "timestamp":
            return dt.datetime.fromisoformat(value)
        case "bool":
            return {"true": True, "t": True, "false": False, "f": False}[value.lower()]
    raise ValueError(value)


def without_difference(node: exp.Binary) -> exp.Binary:
    """A comparison of a difference of moments with an interval, as one of moments: there is no interval type.

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
    text = ""
    if isinstance(node.this, exp.Literal):
        text = str(node.this.name)
        understood(node.this)  # quoted or not
    words = [*text.split(), node.args["unit"].name] if node.args.get("unit") else text.split()
    months = microseconds = 0
    if len(words) % 2 or not words:
        raise source.refuse(
            node, "this interval is not understood", "write interval '3' day or interval '1 year 2 hours'"
        )
    for amount, unit in zip(words[::2], words[1::2], strict=True):
        name = unit.lower().rstrip("s")
        try:
            count = int(amount)
        except ValueError:
            raise source.refuse(node, f"{amount!r} is not a whole number of {name}s") from None
        if name in MONTHS:
            months += count * MONTHS[name]
        elif name in DAYS:
            microseconds += count * DAYS[name] * DAY
        elif name in MICROSECONDS:
            microseconds += count * MICROSECONDS[name]
        else:
            raise source.refuse(node, f"there is no unit {unit!r}", "use year, month, week, day, hour, minute, second")
    return months, microseconds
