"""Variances and standard deviations, over groups and over windows: composed from a count and sums.

See `everview.expr.variance` for doubles and ints, `everview.expr.exact_variance` for decimals and numerics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlglot import exp

from everview.expr import exact_variance, functions, python_function_types, variance
from everview.expr.nodes import Expr, Literal, Udf
from everview.sql.select import exact_sums
from everview.sql.text import dialects
from everview.types import FLOAT, FREE, INT, numeric

MOMENTS: dict[type[exp.Expr], variance.Moment] = {
    exp.Variance: variance.var_samp,
    exp.VariancePop: variance.var_pop,
    exp.Stddev: variance.stddev_samp,
    exp.StddevSamp: variance.stddev_samp,
    exp.StddevPop: variance.stddev_pop,
}

_EXACT: dict[type[exp.Expr], exact_variance.Moment] = {
    exp.Variance: exact_variance.var_samp,
    exp.VariancePop: exact_variance.var_pop,
    exp.Stddev: exact_variance.stddev_samp,
    exp.StddevSamp: exact_variance.stddev_samp,
    exp.StddevPop: exact_variance.stddev_pop,
}


class Moment(NamedTuple):
    """The value whose rows are counted, the expressions to be summed, and the result for the count and the sums."""

    value: Expr
    summed: list[Expr]
    put: Callable[..., Expr]


def moment(kind: type[exp.Expr], value: Expr, dialect: str) -> Moment:
    """The parts of a variance or standard deviation of a value."""
    if value.type.kind in ("decimal", "numeric"):
        if dialects.is_exact(dialect):
            return _exact(_EXACT[kind], value)
        value = functions.cast(value, FLOAT.optional(value.type.nullable))
    function = MOMENTS[kind]
    return Moment(value, [*variance.parts(value)], lambda *found: Udf(FLOAT.optional(), function, found))


def _exact(function: exact_variance.Moment, value: Expr) -> Moment:
    made, parts = python_function_types.QUOTIENT.optional(), exact_sums.parts(value)
    if value.type.kind == "decimal":
        scale, of_decimals = Literal(INT, value.type.scale), exact_variance.of_decimals(function)
        summed = [*parts, *exact_variance.squares(value)]
        return Moment(value, summed, lambda n, total, *squares: Udf(made, of_decimals, (n, scale, total, *squares)))
    free = functions.cast(value, numeric(FREE).optional(value.type.nullable))
    square = functions.call("mul", free, free)  # which may have more digits than the type of its values
    total, squared = exact_sums.whole(value.type), exact_sums.whole(square.type)

    def put(n: Expr, *sums: Expr) -> Expr:
        return Udf(made, function, (n, total(*sums[: len(parts)]), squared(*sums[len(parts) :])))

    return Moment(value, [*parts, *exact_sums.parts(square)], put)
