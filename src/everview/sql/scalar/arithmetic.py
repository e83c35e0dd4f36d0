"""Sums, differences, products and logarithms, of numbers and of dates and times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import calls, casts, constants, interval_arithmetic, json_forms, moment_forms
from everview.sql.scalar.handlers import Forms
from everview.sql.text import consumed_parts
from everview.types import INT, INTERVAL, TIMESTAMP

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def on_add(scalars: Scalars, node: exp.Add) -> Expr:
    left, right = node.this, node.expression
    if isinstance(left, exp.Interval):
        left, right = right, left
    if isinstance(right, exp.Interval):
        a = scalars.bind(left)
        if isinstance(a, Literal) and constants.is_quoted(a) and constants.is_interval(a.value):
            a = constants.text_as(a.value, INTERVAL, left, scalars.source)
        if a.type.kind == "str":  # a quoted moment
            return _moved(scalars, a, right, 1)
        day = None if moment_forms.TRANSLATED in node.meta else moment_forms.whole_days(scalars, a, right, 1)
        if day is not None:
            return day
        b = scalars.bind(right)
    else:
        a, b = _beside_moment(scalars, left, right)
    found = interval_arithmetic.added(scalars, a, b)
    if found is not None:
        return found
    if a.type.kind == "int" and b.type.kind == "date":
        a, b = b, a
    if a.type.kind == "date" and b.type.kind == "int":
        return scalars.call("date_add_days", a, b)
    return scalars.call("add", a, b)


def on_sub(scalars: Scalars, node: exp.Sub) -> Expr:
    if isinstance(node.expression, exp.Interval):
        a = scalars.bind(node.this)
        if a.type.kind == "str":
            return _moved(scalars, a, node.expression, -1)
        is_ours = moment_forms.TRANSLATED in node.meta
        day = None if is_ours else moment_forms.whole_days(scalars, a, node.expression, -1)
        if day is not None:
            return day
        b = scalars.bind(node.expression)
    else:
        a = scalars.bind(node.this)
        found = json_forms.without(scalars, a, scalars.bind(node.expression), node)
        if found is not None:
            return found
        a, b = _beside_moment(scalars, node.this, node.expression)
    found = interval_arithmetic.subtracted(scalars, a, b)
    if found is not None:
        return found
    kinds = (a.type.kind, b.type.kind)
    if kinds == ("date", "int"):
        return scalars.call("date_add_days", a, scalars.call("neg", b))
    if kinds == ("date", "date") and scalars.source.dialect in moment_forms.JAVA:
        return scalars.call("moment_sub", *(casts.cast_to(scalars, d, TIMESTAMP) for d in (a, b)))
    if kinds == ("date", "date"):
        return scalars.call("date_diff_days", a, b)
    return scalars.call("sub", a, b)


def _beside_moment(scalars: Scalars, left: exp.Expr, right: exp.Expr) -> tuple[Expr, Expr]:
    """Both sides of + or -; a quoted constant next to a moment is an interval, as in PostgreSQL."""
    a, b = scalars.typed_pair(left, right)
    for one, other, at in ((a, b, left), (b, a, right)):
        if isinstance(one, Literal) and constants.is_quoted(one) and other.type.kind in ("interval", "time"):
            read = constants.text_as(one.value, INTERVAL, at, scalars.source)
            return (read, b) if one is a else (a, read)
    return scalars.coerced(a, b, left), scalars.coerced(b, a, right)


def _moved(scalars: Scalars, moment: Expr, by: exp.Interval, sign: int) -> Expr:
    """A date or timestamp moved by an interval: a timestamp."""
    months, microseconds = constants.interval(by, scalars.source)
    if months:
        moment = scalars.call("add_months", moment, Literal(INT, sign * months))
    moment = casts.cast_to(scalars, moment, TIMESTAMP)
    if microseconds:
        moment = scalars.call("timestamp_add", moment, Literal(INT, sign * microseconds))
    return moment


def on_mul(scalars: Scalars, node: exp.Mul) -> Expr:
    a, b = scalars.pair(node.this, node.expression)
    return interval_arithmetic.multiplied(scalars, a, b) or scalars.call("mul", a, b)


def on_neg(scalars: Scalars, node: exp.Neg) -> Expr:
    inner = node.this
    if isinstance(inner, exp.TryCast) and isinstance(inner.this, exp.Literal) and inner.this.is_number:
        made = inner.copy()  # -128Y: Spark's smallest tinyint, although 128Y is invalid
        made.set("this", exp.Neg(this=inner.this.copy()))
        consumed_parts.understood(inner)
        return scalars.bind(made)
    return scalars.call("neg", scalars.bind(inner))


def on_log(scalars: Scalars, node: exp.Log) -> Expr:
    if node.args.get("expression") is None:
        return scalars.call("log10", scalars.bind(node.this))
    base = scalars.bind(node.this)
    op = {2: "log2", 10: "log10"}.get(base.value if isinstance(base, Literal) else 0)
    if op is None:
        return calls.called("log_base", [base, scalars.bind(node.expression)], node, scalars)
    return scalars.call(op, scalars.bind(node.expression))


FORMS: Forms = {
    exp.Add: on_add,
    exp.Sub: on_sub,
    exp.Mul: on_mul,
    exp.Neg: on_neg,
    exp.Log: on_log,
}
