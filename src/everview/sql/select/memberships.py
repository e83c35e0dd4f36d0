"""Long lists: `x IN (1, 2, 3, ...)` as a join with the rows of a constant.

A short list is a condition: x = 1 or x = 2 or ... Each of its values is a few instructions for every row, and takes
some tenth of a millisecond to compile. A list of thousands is joined as a table: a semi-join, or for NOT IN an
anti-join (such a list contains no NULL, so a row is kept unless its own value is NULL).

Only plain constants with a context-free meaning are converted: integers for an int, texts for a text, quoted dates and
times for dates and timestamps. Everything else stays a condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from everview.expr.nodes import Expr
from everview.plan import joins
from everview.plan.nodes import Constant
from everview.sql.scalar import constants

if TYPE_CHECKING:
    from everview.sql.scalar.scalars import Scalars

TABLE_FROM_VALUES = 100
"""Number of values from which a list is a table."""

MOMENTS = ("date", "timestamp")


def long_list(condition: exp.Expr) -> tuple[exp.In, bool] | None:
    """The IN with a long list of constants that a condition is, and whether it is negated."""
    inner, negated = condition, False
    while isinstance(inner, (exp.Paren, exp.Not)):
        negated ^= isinstance(inner, exp.Not)
        inner = inner.this
    if not isinstance(inner, exp.In) or len(inner.expressions) < TABLE_FROM_VALUES or isinstance(inner.this, exp.Tuple):
        return None
    if not all(isinstance(e, (exp.Literal, exp.Neg)) for e in inner.expressions):
        return None
    return inner, negated ^ bool(inner.args.get("negate"))


def table_of(test: exp.In, value: Expr, scalars: Scalars) -> Constant | None:
    """The list as rows that can be joined by the value; None if it has to be a condition."""
    kind = value.type.kind
    read = {"int": _whole, "str": _text, **dict.fromkeys(MOMENTS, _moment)}.get(kind)
    if read is None:
        return None
    found: dict[Any, None] = {}
    for item in test.expressions:
        one = read(item, value, scalars)
        if one is None:
            return None
        found[one] = None
    return Constant(tuple((v,) for v in found), (value.type.optional(False),))


def keep(condition: exp.Expr, scalars: Scalars) -> bool:
    """Keep the scope's rows for which a condition with a long list holds; False if it has to be done otherwise."""
    found = long_list(condition)
    if found is None:
        return False
    test, negated = found
    value = scalars.bind(test.this)
    table = table_of(test, value, scalars)
    if table is None:
        return False
    scope = scalars.scope
    node = joins.among(scope.relation.node, value, [row[0] for row in table.rows], negated=negated)
    scope.relation = type(scope.relation)(node, scope.relation.fields)
    return True


def _whole(item: exp.Expr, value: Expr, scalars: Scalars) -> int | None:
    sign, literal = (-1, item.this) if isinstance(item, exp.Neg) else (1, item)
    if not isinstance(literal, exp.Literal) or not (literal.name.isascii() and literal.name.isdecimal()):
        return None
    number = sign * int(literal.name) if len(literal.name) < 20 else 2**63
    return number if -(2**63) < number < 2**63 else None


def _text(item: exp.Expr, value: Expr, scalars: Scalars) -> str | None:
    return item.name if isinstance(item, exp.Literal) and item.is_string else None


def _moment(item: exp.Expr, value: Expr, scalars: Scalars) -> Any:
    if not isinstance(item, exp.Literal) or not item.is_string:
        return None
    found = constants.text_as(item.name, value.type, item, scalars.source)
    return getattr(found, "value", None)
