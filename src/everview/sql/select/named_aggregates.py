"""Aggregates bound by name: their arguments and implementations.

Some are synonyms (any_value is a minimum, approx_count_distinct counts exactly, regr_count counts pairs); the rest are
`everview.sql.folds`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import did_you_mean
from everview.expr import common_types, functions
from everview.expr.nodes import Expr
from everview.expr.nodes import Literal as Constant
from everview.sql.folds import PAIRS, UNKNOWN, Folding
from everview.sql.lists import told
from everview.sql.scalar.constants import folded
from everview.sql.scalar.type_names import in_words
from everview.sql.select.sort_keys import sort_keys
from everview.types import FLOAT, INT, DataType

if TYPE_CHECKING:
    from everview.sql.select.grouping import Grouped

ALIASES = {
    "min_by": "arg_min",
    "max_by": "arg_max",
    "argmin": "arg_min",
    "argmax": "arg_max",
    "quantile_cont": "percentile_cont",
    "quantile_disc": "percentile_disc",
    "quantile": "percentile_disc",
    "approx_quantile": "percentile_disc",
    "approx_percentile": "percentile_disc",
    "approx_distinct": "approx_count_distinct",
    "countif": "count_if",
    "first_value": "first",
    "last_value": "last",
}
"""Other systems' names. approx_... are exact here."""

BETWEEN = ("hive", "spark", "spark2", "databricks")
"""Dialects whose percentile(x, 0.5) interpolates; sqlglot reads it as DuckDB's quantile, which does not."""

INTS = frozenset({"int"})


@dataclass(frozen=True)
class Given:
    """A call taken apart: its name, arguments, the order of its rows, DISTINCT."""

    name: str
    args: list[exp.Expr]
    order: list[exp.Expr]
    distinct: bool
    node: exp.Expr


def given(node: exp.Expr, grouped: Grouped) -> Given:
    """The parts of `f(DISTINCT a, b ORDER BY c)` and `f(a) WITHIN GROUP (ORDER BY b)`."""
    inner = node.this if isinstance(node, exp.WithinGroup) else node
    written = inner.name.lower() if isinstance(inner, exp.AnonymousAggFunc) else grouped.source.written(inner)
    name = ALIASES.get(written, written)
    if written == "quantile" and grouped.source.dialect in BETWEEN:
        name = "percentile_cont"
    args = list(inner.expressions) if isinstance(inner, exp.AnonymousAggFunc) else [inner.this]
    order: list[exp.Expr] = []
    if args and isinstance(args[-1], exp.Order):
        order = args[-1].expressions
        args = [*args[:-1], *([] if args[-1].this is None else [args[-1].this])]  # first(ORDER BY b) is of nothing
    distinct = bool(args) and isinstance(args[0], exp.Distinct)
    if distinct:
        args = [*args[0].expressions, *args[1:]]
    if isinstance(node, exp.WithinGroup):
        within = node.expression.expressions
        if order or distinct or len(within) != 1:
            raise grouped.source.error(node, "E_ORDER", f"WITHIN GROUP of {written} orders by one expression")
        if name not in ("mode", "percentile_cont", "percentile_disc"):
            known = ("mode", "percentile_cont", "percentile_disc")
            hint = did_you_mean(written, known).replace("available:", "there are")
            raise grouped.source.refuse(node, f"{written} has no WITHIN GROUP", hint)
        args, order = [within[0].this, *args], within
    elif order and name not in ("first", "last"):
        raise grouped.source.refuse(inner, "ORDER BY inside this aggregate has no meaning")
    return Given(name, args, order, distinct, inner)


AS_FLOATS = ("median", "percentile_cont", "product")
"""Aggregates of one number that give a float."""


def fold(call: Given, test: Expr | None, grouped: Grouped) -> tuple[Folding, tuple[Expr, ...], DataType]:
    """The reduction, its input columns (the condition first, if there is one), and the type of its result."""
    fraction = _fraction(call, grouped)
    wanted = 2 if call.name in PAIRS or call.name.startswith("arg_") else 1
    if len(call.args) != wanted:
        what = "two arguments" if wanted == 2 else "one argument"
        raise grouped.source.error(call.node, "E_ARITY", f"{_written(call, grouped)} takes {what}")
    args = tuple(grouped.below.bind(a) for a in call.args)
    if call.name in PAIRS or call.name in AS_FLOATS:
        args = tuple(functions.cast(a, FLOAT) if a.type.kind == "numeric" else a for a in args)
    _check_types(call, args, grouped)
    if call.name in ("first", "last") and not call.order:
        raise grouped.source.error(
            call.node,
            "E_ORDER",
            f"{_written(call, grouped)} needs an order: which row is first is left open",
            f"{_written(call, grouped)}(x ORDER BY y), or any_value(x)",
        )
    keys = [k for o in call.order for k in sort_keys(grouped.below.bind(o.this), o)]
    exprs = (*([test] if test is not None else []), *args, *(k for k, _ in keys))
    function = Folding(
        0,
        call.name,
        len(args),
        tuple(down for _, down in keys),
        call.distinct,
        test is not None,
        fraction,
        told([e.type for e in (*args, *(k for k, _ in keys))]),
    )
    return function, exprs, _result(call.name, args).optional()


def _written(call: Given, grouped: Grouped) -> str:
    return grouped.source.written(call.node)


def _fraction(call: Given, grouped: Grouped) -> float:
    """The part of the way that a percentile is at: its last argument, a constant from 0 to 1."""
    if call.name not in ("percentile_cont", "percentile_disc"):
        return 0.0
    if len(call.args) == 3 and _written(call, grouped).lower() == "approx_percentile":
        _exact(call.args.pop(), grouped)
    if len(call.args) != 2:
        hint = "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"
        raise grouped.source.error(
            call.node, "E_ARITY", f"{_written(call, grouped)} needs a fraction and an order", hint
        )
    at = call.args.pop()
    value = grouped.below.bind(at)
    value = folded(value, grouped.compiler.interner)
    if isinstance(value, Constant) and value.value is None:
        return UNKNOWN
    if not isinstance(value, Constant) or value.type.kind not in common_types.NUMBERS:
        raise grouped.source.error(at, "E_LITERAL", "the fraction of a percentile must be a constant number")
    if not 0 <= value.value <= 1:
        raise grouped.source.error(at, "E_RANGE", f"the fraction {value.value} is not between 0 and 1")
    return float(value.value)


def _exact(error: exp.Expr, grouped: Grouped) -> None:
    """Check the error (or Spark's accuracy) that approx_percentile may have. It has none here."""
    value = grouped.below.bind(error)
    number = value.value if isinstance(value, Constant) and value.type.kind in common_types.NUMBERS else None
    if number is None or number <= 0:
        raise grouped.source.error(error, "E_LITERAL", "the error of approx_percentile must be a constant above 0")


def _check_types(call: Given, args: tuple[Expr, ...], grouped: Grouped) -> None:
    name, types = call.name, [a.type for a in args]
    if name.startswith("bit_"):
        good = types[0].kind == "int"
    elif name in PAIRS or name in AS_FLOATS:
        good = all(t.kind in common_types.NUMBERS for t in types)
    else:
        good = types[-1].kind in common_types.ORDERED and (len(types) == 1 or types[0].kind in common_types.ORDERED)
    if not good:
        said = ", ".join(map(in_words, types))
        raise grouped.source.error(
            call.node, "E_TYPE", f"there is no {_written(call, grouped)} of {said}", "cast it first"
        )


def _result(name: str, args: tuple[Expr, ...]) -> DataType:
    if name in PAIRS or name in AS_FLOATS:
        return FLOAT
    return INT if name.startswith("bit_") else args[0].type
