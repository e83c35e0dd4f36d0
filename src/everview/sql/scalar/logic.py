"""AND, OR, NOT, CASE and the like; guarded parts are evaluated only where the guard holds."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Literal as OneOf

from sqlglot import exp

from everview.expr import functions
from everview.expr.nodes import Expr, Literal
from everview.sql.scalar import comparisons, constants
from everview.sql.scalar.handlers import Forms
from everview.sql.scalar.operands import OPERANDS
from everview.sql.select import demand
from everview.sql.text.error_positions import has_query
from everview.types import INT

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars


CHAIN = 16
"""Chains of AND or OR up to this length stay as written."""


def on_and(scalars: Scalars, node: exp.And) -> Expr:
    return _all_of(scalars, "and", node)


def on_or(scalars: Scalars, node: exp.Or) -> Expr:
    return _all_of(scalars, "or", node)


def _all_of(scalars: Scalars, op: OneOf["and", "or"], node: exp.Connector) -> Expr:
    """A chain of one connector, which sqlglot nests to the left; a long one becomes a balanced tree."""
    parts: list[exp.Expr] = []
    left: exp.Expr = node
    while type(left) is type(node) and (left is node or not scalars.is_known(left)):
        scalars.source.only(left, *OPERANDS)
        parts.append(left.expression)
        left = left.this
    bound: list[Expr] = []
    for part in (left, *reversed(parts)):
        before = [b if op == "and" else demand.unless(b) for b in bound] if has_query(part) else []
        with demand.only_where(scalars.scope, *before):
            bound.append(scalars.condition(part))
    if len(bound) > CHAIN:
        return functions.conjunction(bound, op)
    found = bound[0]
    for one in bound[1:]:
        found = scalars.call(op, found, one)
    return found


def on_not(scalars: Scalars, node: exp.Not) -> Expr:
    return scalars.call("not", scalars.condition(node.this))


def on_case(scalars: Scalars, node: exp.Case) -> Expr:
    with scalars.looking_for_queries(node) as lazy:
        tests, values, given = _branches(scalars, node, lazy)
    values = _alike(scalars, values, given)
    parts = [part for pair in zip(tests, values, strict=False) for part in pair]
    return scalars.call("case", *parts, values[-1] if node.args.get("default") else Literal(INT.optional(), None))


def _branches(scalars: Scalars, node: exp.Case, lazy: bool) -> tuple[list[Expr], list[Expr], list[exp.Expr]]:
    """The conditions and values of a CASE, and how its values are written; `lazy`: a value is asked for only where its
    condition is the first that holds.
    """
    tests: list[Expr] = []
    given: list[exp.Expr] = []
    values: list[Expr] = []
    for branch in node.args["ifs"]:
        if node.this is None:
            tests.append(scalars.condition(branch.this))
        else:
            tests.append(comparisons.compare(scalars, "eq", *scalars.pair(node.this, branch.this)))
        given.append(branch.args["true"])
        with demand.only_where(scalars.scope, *([*map(demand.unless, tests[:-1]), tests[-1]] if lazy else [])):
            values.append(scalars.bind(given[-1]))
    if default := node.args.get("default"):
        given.append(default)
        with demand.only_where(scalars.scope, *(map(demand.unless, tests) if lazy else ())):
            values.append(scalars.bind(default))
    return tests, values, given


def _alike(scalars: Scalars, values: list[Expr], given: list[exp.Expr]) -> list[Expr]:
    """Values with quoted constants parsed as the others' type."""
    known = next((v for v in values if not constants.is_quoted(v) and not constants.is_null(v)), None)
    if known is None:
        return values
    return [scalars.coerced(v, known, at) for v, at in zip(values, given, strict=True)]


def on_if(scalars: Scalars, node: exp.If) -> Expr:
    test, default = scalars.condition(node.this), node.args.get("false")
    with demand.only_where(scalars.scope, demand.unless(test)):
        otherwise = scalars.bind(default) if default else Literal(INT.optional(), None)
    with demand.only_where(scalars.scope, test):
        return scalars.call("case", test, scalars.bind(node.args["true"]), otherwise)


def on_coalesce(scalars: Scalars, node: exp.Coalesce) -> Expr:
    return scalars.call("coalesce", *_like_the_first(scalars, [node.this, *node.expressions], lazy=True))


def _like_the_first(scalars: Scalars, given: list[exp.Expr], lazy: bool = False) -> list[Expr]:
    args: list[Expr] = []
    for arg in given:
        with scalars.looking_for_queries(arg) as found:
            before = [scalars.call("is_null", a) for a in args] if lazy and found else []
            with demand.only_where(scalars.scope, *before):
                args.append(scalars.bind(arg))
    return [scalars.coerced(a, args[0], at) for a, at in zip(args, given, strict=True)]


def on_nullif(scalars: Scalars, node: exp.Nullif) -> Expr:
    return scalars.call("nullif", *scalars.pair(node.this, node.expression))


def on_greatest(scalars: Scalars, node: exp.Greatest) -> Expr:
    return _extreme(scalars, "greatest", node)


def on_least(scalars: Scalars, node: exp.Least) -> Expr:
    return _extreme(scalars, "least", node)


def _extreme(scalars: Scalars, op: str, node: exp.Expr) -> Expr:
    """The largest or smallest; NULLs are ignored, or make it NULL, by dialect."""
    args = _like_the_first(scalars, [node.this, *node.expressions])
    found = scalars.call(op, *args)
    nulls = [scalars.call("is_null", a) for a in args if a.type.nullable]
    if node.args.get("ignore_nulls") or not nulls:
        return found
    return scalars.call("case", functions.conjunction(nulls, "or"), Literal(found.type.optional(), None), found)


FORMS: Forms = {
    exp.And: on_and,
    exp.Or: on_or,
    exp.Not: on_not,
    exp.Case: on_case,
    exp.If: on_if,
    exp.Coalesce: on_coalesce,
    exp.Nullif: on_nullif,
    exp.Greatest: on_greatest,
    exp.Least: on_least,
}
