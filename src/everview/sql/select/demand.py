"""Demand: which rows need a subquery, so that its errors count only for these.

A subquery is computed once for all rows, so an error inside it (a division by zero, say) would be an error of the whole
view, even if no row uses the value: in a CASE branch not taken, or behind a WHERE that filters everything. A subquery
that may fail is therefore made to depend on an additional column of the outer query, its *demand*: 1 where the value is
used, NULL elsewhere. Like every correlated column, it is joined to the subquery's FROM
(`everview.sql.select.subqueries`), without NULLs; if no row needs the subquery, nothing is computed.

The conditions that guard the expression being bound are recorded in the scope (`Scope.demands`) by CASE, COALESCE, AND
and OR.

Hazard: that join costs the size of the subquery's FROM, once. Plain sums and products, which can only overflow, are
therefore exempt: an overflow inside a subquery is an error for all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from everview.expr.functions import call, conjunction
from everview.expr.nodes import Call, Expr, Literal, Udf
from everview.plan import joins
from everview.plan.nodes import Filter, Node, Project
from everview.sql.select.scopes import Scope
from everview.types import INT

SAFE = frozenset({
    "add", "sub", "mul", "neg", "abs", "sign", "round", "floor", "ceil",
    "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null", "is_not_null", "if_null", "coalesce", "case",
    "nullif", "greatest", "least", "lower", "upper", "length", "reverse", "concat", "contains", "startswith",
    "endswith", "like", "ilike", "substr", "trim", "ltrim", "rtrim", "replace", "position", "regexp_matches",
    "year", "month", "day", "hour", "minute", "second", "dayofweek", "date_trunc", "date_add_days", "date_diff_days",
    "timestamp_add", "add_months", "extract_epoch",
})  # fmt: skip
"""Functions that can only fail by overflow."""


def may_fail(node: Node) -> bool:
    """Whether computing a plan's rows can fail, other than by overflow."""
    for part in node.walk():
        exprs = part.exprs if isinstance(part, Project) else (part.predicate,) if isinstance(part, Filter) else ()
        if any(map(fails, exprs)):
            return True
    return False


def fails(expr: Expr) -> bool:
    """Whether an expression can fail, other than by overflow."""
    return any(map(_risky, expr.walk()))


def _risky(expr: Expr) -> bool:
    if isinstance(expr, Call) and expr.op.startswith("cast_"):
        return expr.args[0].type.kind == "str" and expr.type.kind != "str"
    if isinstance(expr, Call) and expr.op in ("div", "floordiv", "mod"):
        divisor = expr.args[1]
        return not (isinstance(divisor, Literal) and divisor.value)
    return isinstance(expr, Udf) or (isinstance(expr, Call) and expr.op not in SAFE)


@contextmanager
def only_where(scope: Scope, *conditions: Expr) -> Iterator[None]:
    """Bind the inside as used only for rows for which these conditions are true."""
    scope.demands += conditions
    try:
        yield
    finally:
        del scope.demands[len(scope.demands) - len(conditions) :]


def unless(condition: Expr) -> Expr:
    """That a condition is false or NULL."""
    return call("not", call("coalesce", condition, Literal(condition.type.optional(False), False)))


def column(scope: Scope) -> int:
    """The position of a new column of the scope: 1 where the value being bound is needed, else NULL."""
    one: Expr = Literal(INT, 1)
    if scope.demands:
        one = call("case", conjunction(list(scope.demands)), one, Literal(INT.optional(), None))
    node = scope.relation.node
    return scope.append(Project(node, (*joins.refs(node.types), one)))[-1].index
