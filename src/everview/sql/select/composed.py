"""Sums and averages of values that are no code: numerics and intervals, over groups and over windows.

The engine sums 64-bit codes. A numeric is cut into limbs of ten digits, an interval into months, days and microseconds;
these are summed as ints, and the sum is put together from them, exactly.

>>> from everview.expr.nodes import ColumnRef
>>> [part.op for part in parts(ColumnRef(INTERVAL, 0))]
['interval_months', 'interval_days', 'interval_microseconds']
"""

from __future__ import annotations

from collections.abc import Callable

from everview.expr import amounts, typed
from everview.expr.functions import call
from everview.expr.nodes import Call, Expr, Literal
from everview.types import INT, INTERVAL, DataType, numeric


def parts(value: Expr) -> list[Call]:
    """The ints that are summed instead of a value."""
    if value.type.kind == "numeric":
        found = [call("numeric_limb", value, Literal(INT, i)) for i in range(amounts.limbs(value.type))]
    else:
        found = [call(f"interval_{part}", value) for part in ("months", "days", "microseconds")]
    return [part for part in found if isinstance(part, Call)]


def whole(declared: DataType) -> Callable[..., Expr]:
    """What makes the sum of values of a type from the sums of their parts; NULL if those are."""
    if declared.kind == "numeric":
        return lambda *sums: Call(numeric(declared.scale).optional(), "numeric_sum", sums)
    return lambda *sums: Call(INTERVAL.optional(), "interval_make", sums)


def average(total: Expr, count: Expr, declared: DataType) -> Expr:
    """The average of so many values of a type; NULL if there are none."""
    some = call("nullif", count, Literal(INT, 0))
    if declared.kind == "interval":
        return call("interval_div", total, some)
    quotient = numeric(max(declared.scale, typed.AVERAGE_SCALE)).optional()
    return Call(quotient, "numeric_average", (total, some))
