"""Division and remainder as in SQL: towards zero for integers, division by zero by dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import interval_arithmetic, roundings
from everview.sql.scalar.handlers import Forms
from everview.sql.text import dialects
from everview.types import FLOAT, INT

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


def on_div(scalars: Scalars, node: exp.Div) -> Expr:
    """Integer or exact division, by dialect; division by zero is NULL or an error of the row."""
    a, b = scalars.pair(node.this, node.expression)
    if node.args.get("safe"):
        b = _not_zero(scalars, b)
    if node.args.get("typed") and a.type.kind == b.type.kind == "int":
        return quotient(scalars, a, b)
    return interval_arithmetic.divided(scalars, a, b) or scalars.call("div", a, b)


def _not_zero(scalars: Scalars, divisor: Expr) -> Expr:
    return scalars.call("nullif", divisor, Literal(INT, 0))


def on_mod(scalars: Scalars, node: exp.Mod) -> Expr:
    a, b = scalars.pair(node.this, node.expression)
    if dialects.is_safe(scalars.source.dialect):
        b = _not_zero(scalars, b)
    if "float" in (a.type.kind, b.type.kind) and scalars.source.dialect == "sqlite":
        return functions.cast(_of_wholes(scalars, a, b), FLOAT.optional())
    if "float" in (a.type.kind, b.type.kind):
        return _fmod(scalars, a, b)
    return _rest(scalars, a, b)


def _of_wholes(scalars: Scalars, a: Expr, b: Expr) -> Expr:
    """SQLite's remainder: of both without their fractions."""
    a, b = (functions.cast(roundings.whole(scalars, x), INT) if x.type.kind == "float" else x for x in (a, b))
    return _rest(scalars, a, _not_zero(scalars, b))


def _rest(scalars: Scalars, a: Expr, b: Expr) -> Expr:
    rest = scalars.call("mod", a, b)
    return scalars.call("case", _rounded_down(scalars, a, b, rest), scalars.call("sub", rest, b), rest)


def _fmod(scalars: Scalars, a: Expr, b: Expr) -> Expr:
    """C's remainder, with the dividend's sign. That of the magnitudes is exact; adding a divisor to change its sign
    would round.
    """
    rest = scalars.call("mod", scalars.call("abs", a), scalars.call("abs", b))
    return scalars.call("case", scalars.call("lt", a, Literal(INT, 0)), scalars.call("neg", rest), rest)


def on_intdiv(scalars: Scalars, node: exp.IntDiv) -> Expr:
    a, b = scalars.pair(node.this, node.expression)
    if scalars.source.dialect == "duckdb" and {a.type.kind, b.type.kind} != {"int"}:  # whole for ints only
        return interval_arithmetic.divided(scalars, a, b) or scalars.call("div", a, b)
    return quotient(scalars, a, _not_zero(scalars, b) if dialects.is_safe(scalars.source.dialect) else b)


def quotient(scalars: Scalars, a: Expr, b: Expr) -> Expr:
    """a / b rounded towards zero."""
    quotient = scalars.call("floordiv", a, b)
    one = Literal(INT, 1)
    return scalars.call(
        "case", _rounded_down(scalars, a, b, scalars.call("mod", a, b)), scalars.call("add", quotient, one), quotient
    )


def _rounded_down(scalars: Scalars, a: Expr, b: Expr, rest: Expr) -> Expr:
    """Whether floor division rounded away from zero: there is a remainder and the signs differ."""
    zero = Literal(INT, 0)
    signs = scalars.call("ne", scalars.call("lt", a, zero), scalars.call("lt", b, zero))
    return scalars.call("and", scalars.call("ne", rest, zero), signs)


FORMS: Forms = {
    exp.Div: on_div,
    exp.Mod: on_mod,
    exp.IntDiv: on_intdiv,
}
