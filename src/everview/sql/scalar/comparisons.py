"""Comparisons: of values, of rows of values, with NULL, BETWEEN, and IN with a list."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import array_forms, constants, names
from everview.sql.scalar.handlers import Forms
from everview.sql.text.dialects import PRINTING
from everview.types import BOOL, INT

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}


def compare(scalars: Scalars, op: str, a: Expr, b: Expr) -> Expr:
    """A comparison; a date next to a constant midnight stays a date, which indexes and joins can use."""
    a, b = _as_date(a, b), _as_date(b, a)
    return scalars.call(op, a, b)


def comparison(scalars: Scalars, node: exp.Expr, op: str) -> Expr:
    found = array_forms.any_or_all(scalars, node, op)
    if found is not None:
        return found
    if isinstance(node.expression, (exp.Any, exp.All)):
        return scalars.compiler.subqueries(scalars.scope, scalars.env).quantified(node, op)
    if _is_row(scalars, node.this) or _is_row(scalars, node.expression):
        return _tuples(scalars, node, op)
    plain = constants.without_difference(node) if isinstance(node, exp.Binary) else node
    return compare(scalars, op, *scalars.pair(plain.this, plain.expression))


def _tuples(scalars: Scalars, node: exp.Expr, op: str) -> Expr:
    """Two rows of values, compared as in SQL: NULL if a NULL decides it."""
    left, right = node.this, node.expression
    if not (_is_row(scalars, left) and _is_row(scalars, right)):
        if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
            raise scalars.source.refuse(node, "rows can only be compared with rows")
        return compare(scalars, op, *scalars.pair(left, right))  # ROW(...) beside a column of rows
    pairs = _paired(scalars, node)
    if op in ("eq", "ne"):
        equal = functions.conjunction([compare(scalars, "eq", a, b) for a, b in pairs])
        return equal if op == "eq" else scalars.call("not", equal)
    found = compare(scalars, op, *pairs[-1])
    strictly = {"le": "lt", "ge": "gt"}.get(op, op)
    for a, b in reversed(pairs[:-1]):  # (a, b) < (c, d): a < c, or a = c and b < d
        tie = scalars.call("and", compare(scalars, "eq", a, b), found)
        found = scalars.call("or", compare(scalars, strictly, a, b), tie)
    return found


def _is_row(scalars: Scalars, node: exp.Expr) -> bool:
    """Whether it is a row constructor: (a, b), or PostgreSQL's ROW(a, b)."""
    if isinstance(node, exp.Tuple):
        return True
    is_row = isinstance(node, exp.Anonymous) and node.name.lower() == "row"
    return is_row and bool(node.expressions) and scalars.source.dialect == "postgres"


def on_nullsafeeq(scalars: Scalars, node: exp.NullSafeEQ) -> Expr:
    left, right = node.this, node.expression
    if not (_is_row(scalars, left) and _is_row(scalars, right)):
        return same(scalars, *scalars.pair(left, right))
    return functions.conjunction([same(scalars, a, b) for a, b in _paired(scalars, node)])


def _paired(scalars: Scalars, node: exp.Expr) -> list[tuple[Expr, Expr]]:
    """The values of two rows, side by side."""
    left, right = node.this.expressions, node.expression.expressions
    if len(left) != len(right):
        raise scalars.source.error(node, "E_WIDTH", "the rows have different numbers of values")
    return [scalars.pair(a, b) for a, b in zip(left, right, strict=True)]


def on_nullsafeneq(scalars: Scalars, node: exp.NullSafeNEQ) -> Expr:
    return scalars.call("not", on_nullsafeeq(scalars, node))  # type: ignore[arg-type]


def same(scalars: Scalars, a: Expr, b: Expr) -> Expr:
    """IS NOT DISTINCT FROM."""
    a_null, b_null = scalars.call("is_null", a), scalars.call("is_null", b)
    both = scalars.call("and", a_null, b_null)
    return scalars.call("coalesce", scalars.call("or", both, compare(scalars, "eq", a, b)), Literal(BOOL, False))


def on_between(scalars: Scalars, node: exp.Between) -> Expr:
    low = compare(scalars, "ge", *scalars.pair(node.this, node.args["low"]))
    high = compare(scalars, "le", *scalars.pair(node.this, node.args["high"]))
    if not node.args.get("symmetric"):
        return scalars.call("and", low, high)
    below = compare(scalars, "le", *scalars.pair(node.this, node.args["low"]))
    above = compare(scalars, "ge", *scalars.pair(node.this, node.args["high"]))
    return scalars.call("or", scalars.call("and", low, high), scalars.call("and", below, above))


def on_collate(scalars: Scalars, node: exp.Collate) -> Expr:
    """text COLLATE "C": comparison by code point, as everywhere here."""
    if node.expression.name.upper() not in names.COLLATIONS:
        raise scalars.source.refuse(node.expression, f"the collation {node.expression.name} is not known", 'use "C"')
    return scalars.bind(node.this)


def on_in(scalars: Scalars, node: exp.In) -> Expr:
    if node.args.get("query") is not None:
        return scalars.compiler.subqueries(scalars.scope, scalars.env).is_in(node)
    if not node.expressions:
        raise scalars.source.refuse(node, "this form of IN is not supported", "list the values: IN (1, 2)")
    if isinstance(node.this, exp.Tuple):
        tests = [_tuples(scalars, exp.EQ(this=node.this, expression=v), "eq") for v in node.expressions]
    else:
        tests = [compare(scalars, "eq", *scalars.pair(node.this, v)) for v in node.expressions]
    return functions.conjunction(tests, "or")


def on_is(scalars: Scalars, node: exp.Is) -> Expr:
    what = node.expression
    if isinstance(what, exp.Null) and _is_row(scalars, node.this):
        return _row_is_null(scalars, node)
    value = scalars.bind(node.this)
    if isinstance(what, exp.Null) and value.type.kind == "struct" and scalars.source.dialect in PRINTING:
        fields = [scalars.call("struct_get", value, Literal(INT, i)) for i in range(len(value.type.items))]
        return _all_null(node, [scalars.call("is_null", field) for field in fields])
    if isinstance(what, exp.Null):
        return scalars.call("is_null", value)
    if isinstance(what, exp.Boolean):
        return scalars.call("coalesce", scalars.call("eq", value, Literal(BOOL, bool(what.this))), Literal(BOOL, False))
    raise scalars.source.refuse(what, "IS is followed by NULL, TRUE, FALSE or [NOT] DISTINCT FROM")


def _row_is_null(scalars: Scalars, node: exp.Is) -> Expr:
    """(a, b) IS NULL: all are NULL; (a, b) IS NOT NULL: none is. Otherwise both are false."""
    return _all_null(node, [scalars.call("is_null", scalars.bind(e)) for e in node.this.expressions])


def _all_null(node: exp.Is, nulls: list[Expr]) -> Expr:
    """IS NULL of several values; IS NOT NULL denies the answer."""
    if node.args.get("negate"):
        return functions.conjunction(nulls, "or")  # which is denied
    return functions.conjunction(nulls)


def _as_date(expr: Expr, beside: Expr) -> Expr:
    if (
        beside.type.kind == "date"
        and isinstance(expr, Literal)
        and expr.type.kind == "timestamp"
        and expr.value is not None
    ):
        value: dt.datetime = expr.value
        if value.time() == dt.time():
            return Literal(beside.type.optional(False), value.date())
    return expr


FORMS: Forms = {
    exp.NullSafeEQ: on_nullsafeeq,
    exp.NullSafeNEQ: on_nullsafeneq,
    exp.Between: on_between,
    exp.Collate: on_collate,
    exp.In: on_in,
    exp.Is: on_is,
}
