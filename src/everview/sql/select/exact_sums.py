"""Sums and averages of numerics, decimals and intervals, over groups and over windows.

The engine sums 64-bit codes. A numeric is split into limbs of ten digits, an interval into months, days and
microseconds; these are summed as ints, and the sum is composed from them, exactly. A decimal of up to 18 digits is
summed as its code; only its average is a numeric.

>>> from everview.expr.nodes import ColumnRef
>>> [part.op for part in parts(ColumnRef(INTERVAL, 0))]
['interval_months', 'interval_days', 'interval_microseconds']
"""

from __future__ import annotations

from collections.abc import Callable

from everview.expr import numeric_functions, python_function_types
from everview.expr.functions import call
from everview.expr.nodes import Call, Expr, Literal
from everview.sql.text import dialects
from everview.types import INT, INTERVAL, DataType, numeric


def is_composed(kind: str | None, value: Expr, dialect: str) -> bool:
    """Whether an aggregate is composed here: sum and avg of numerics and intervals, and avg of decimals."""
    if kind not in ("sum", "avg"):
        return False
    if value.type.kind == "decimal":
        return kind == "avg" and dialects.is_exact(dialect)
    return value.type.kind in ("numeric", "interval")


def parts(value: Expr) -> list[Expr]:
    """The ints that are summed instead of a value."""
    if value.type.kind == "decimal":
        return [value]
    found: list[Expr]
    if value.type.kind == "numeric":
        found = [call("numeric_limb", value, Literal(INT, i)) for i in range(numeric_functions.limbs(value.type))]
    else:
        found = [call(f"interval_{part}", value) for part in ("months", "days", "microseconds")]
    return found


def whole(declared: DataType) -> Callable[..., Expr]:
    """The sum of values of a type, composed from the sums of their parts; NULL if those are."""
    if declared.kind == "decimal":
        return lambda total: total  # summed as its code; its average divides the decimal itself
    if declared.kind == "numeric":
        return lambda *sums: Call(numeric(declared.scale).optional(), "numeric_sum", sums)
    return lambda *sums: Call(INTERVAL.optional(), "interval_make", sums)


def average(total: Expr, count: Expr, declared: DataType) -> Expr:
    """The average of this many values of a type; NULL if there are none."""
    some = call("nullif", count, Literal(INT, 0))
    if declared.kind == "interval":
        return call("interval_div", total, some)
    return Call(python_function_types.QUOTIENT.optional(), "numeric_average", (total, some))
