"""Intervals, and date arithmetic with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.codes.intervals import Interval, unit_name
from everview.expr import common_types, functions, numeric_functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import casts, constants, zones
from everview.sql.scalar.handlers import Forms
from everview.sql.text import dialects
from everview.types import FLOAT, INT, INTERVAL, STR, TIMESTAMP, TIMESTAMPTZ, numeric

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


TIME_PARTS = ("hour", "minute", "second", "epoch", "milliseconds", "microseconds")


def on_interval(scalars: Scalars, node: exp.Interval) -> Expr:
    return Literal(INTERVAL, constants.span(node, scalars.source))


def added(scalars: Scalars, a: Expr, b: Expr) -> Expr | None:
    """a + b of moments, times and intervals; None if it is something else."""
    if a.type.kind in ("interval", "time") and b.type.kind in (*zones.MOMENTS, "time") and a.type.kind != b.type.kind:
        a, b = b, a
    match a.type.kind, b.type.kind:
        case (("date" | "timestamp" | "timestamptz"), "interval"):
            return _later(scalars, a, b)
        case "date", "time":
            return scalars.call("date_time", a, b)
        case "time", "interval":
            return scalars.call("time_add", a, b)
    return None


def subtracted(scalars: Scalars, a: Expr, b: Expr) -> Expr | None:
    """a - b of moments, times and intervals; None if it is something else."""
    kinds = (a.type.kind, b.type.kind)
    if kinds == ("date", "date"):
        return None
    if a.type.kind in zones.MOMENTS and b.type.kind in zones.MOMENTS:
        a, b = zones.in_one_zone(scalars, a, b)
        sides = [casts.cast_to(scalars, x, TIMESTAMP) if x.type.kind == "date" else x for x in (a, b)]
        return scalars.call("moment_sub", *sides)
    if kinds == ("time", "time"):
        return scalars.call("time_sub", a, b)
    if b.type.kind == "interval" and a.type.kind in (*zones.MOMENTS, "time"):
        return added(scalars, a, scalars.call("neg", b))
    return None


def _later(scalars: Scalars, moment: Expr, by: Expr) -> Expr:
    if isinstance(by, Literal) and by.value is not None:
        return moved(scalars, moment, by.value)
    moment = casts.cast_to(scalars, moment, TIMESTAMP) if moment.type.kind == "date" else moment
    zone = (zones.zone(scalars),) if moment.type.kind == "timestamptz" else ()
    return scalars.call("moment_add", moment, by, *zone)


def moved(scalars: Scalars, moment: Expr, by: Interval) -> Expr:
    """A moment shifted by a constant: VM instructions, unless a zone matters."""
    if moment.type.kind == "timestamptz":
        if scalars.source.zone != "UTC" and (by.months or by.days):
            return scalars.call("moment_add", moment, Literal(INTERVAL, by), zones.zone(scalars))
        return functions.cast(moved(scalars, functions.cast(moment, TIMESTAMP), by), TIMESTAMPTZ)
    if by.months:
        moment = scalars.call("add_months", moment, Literal(INT, by.months))
    moment = casts.cast_to(scalars, moment, TIMESTAMP)
    microseconds = by.days * constants.DAY + by.microseconds
    return scalars.call("timestamp_add", moment, Literal(INT, microseconds)) if microseconds else moment


def multiplied(scalars: Scalars, a: Expr, b: Expr) -> Expr | None:
    """An interval times a number."""
    if b.type.kind == "interval" and a.type.kind != "interval":
        a, b = b, a
    return scalars.call("interval_mul", a, b) if a.type.kind == "interval" else None


def divided(scalars: Scalars, a: Expr, b: Expr) -> Expr | None:
    """An interval divided by a number; a decimal by one, which yields a numeric."""
    if a.type.kind == "interval":
        return scalars.call("interval_div", a, b)
    kinds = {a.type.kind, b.type.kind}
    if "decimal" in kinds and kinds <= common_types.EXACT and dialects.is_exact(scalars.source.dialect):
        return scalars.call(
            "div", *(functions.cast(e, numeric(e.type.scale).optional(e.type.nullable)) for e in (a, b))
        )
    return None


def extracted(scalars: Scalars, unit: str, value: Expr, node: exp.Expr) -> Expr | None:
    """extract() of an interval or a time; a timestamptz in the session's zone."""
    if value.type.kind == "interval":
        name = unit_name(unit) or unit
        if name not in numeric_functions.INTERVAL_PARTS:
            raise scalars.source.refuse(node, f"extract({unit} from interval) is not supported")
        part = scalars.call("interval_part", Literal(STR, name), value)
        return casts.cast_to(scalars, part, FLOAT if name in ("second", "millisecond", "epoch") else INT)
    if value.type.kind == "time" and unit not in TIME_PARTS:
        raise scalars.source.refuse(node, f"a time has no {unit}")
    return None


FORMS: Forms = {
    exp.Interval: on_interval,
}
