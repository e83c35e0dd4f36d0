"""Aggregates over all values of a group: medians, modes, correlations, arg_min and the like.

They are reductions in Python: a changed group is recomputed from its rows. A row is the group's keys, whether it counts
(`filtered`), the aggregate's arguments, and the sort columns. NULL arguments are ignored. Where SQL leaves the result
open (ties), the smallest value is taken, so that the result is deterministic.

Correlations and the like are computed from differences to the group's first row, which are 0 if all values are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from everview.sql.lists import itself, ordered
from everview.types import DataType

Row = tuple[Any, ...]
Counted = list[tuple[Row, int]]
"""Arguments, with multiplicities."""


@dataclass(frozen=True)
class Folding:
    """A group reduction for `PythonReduce`.

    >>> Folding(1, "median", 1)(("k",), [(("k", 4), 1), (("k", 1), 2), (("k", 9), 1), (("k", None), 7)])
    [(2.5,)]
    >>> Folding(0, "arg_max", 2)((), [(("old", 1), 1), (("new", 2), 1)])
    [('new',)]
    """

    keys: int
    name: str
    width: int
    order: tuple[bool, ...] = ()
    distinct: bool = False
    filtered: bool = False
    fraction: float = 0.0
    """of a percentile; UNKNOWN if it is NULL"""
    types: tuple[DataType, ...] = field(default=(), metadata={"later": True})
    """Those of the arguments and the sort columns, if some do not sort by themselves (`everview.sql.lists.told`)."""

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, key: Row, group: Counted) -> list[Row]:
        at = self.keys + self.filtered
        rows = [(row[at:], n) for row, n in group if n > 0 and (not self.filtered or row[self.keys])]
        rows = in_order(rows, self.width, self.order, self.types)
        args = [(row[: self.width], n) for row, n in rows if self.name in KEEP_NULLS or None not in row[: self.width]]
        if self.distinct:
            args = [(row, 1) for row in {tuple(map(itself, row)): row for row, _ in args}.values()]
        return [(FOLDS[self.name](args, self) if args and self.fraction != UNKNOWN else None,)]


def in_order(rows: Counted, width: int, order: tuple[bool, ...], types: tuple[DataType, ...] = ()) -> Counted:
    """Rows sorted by the columns behind their arguments (True: downwards), then by these; NULLs come last."""
    columns = [(c, False) for c in range(width)] + [(width + i, down) for i, down in enumerate(order)]
    for column, down in [*columns[:width], *reversed(columns[width:])]:
        known = [r for r in rows if r[0][column] is not None]
        known.sort(key=lambda r, c=column: ordered(r[0][c], c, types), reverse=down)  # type: ignore[misc]
        rows = known + [r for r in rows if r[0][column] is None]
    return rows


KEEP_NULLS = {"first", "last"}

UNKNOWN = -1.0
"""The fraction of percentile_cont(NULL), which is NULL."""


def _values(rows: Counted) -> list[Any]:
    return [row[0] for row, n in rows for _ in range(n)]


def _extreme(rows: Counted, of: Folding, largest: bool) -> Any:
    """The first argument where the second is extreme; of several the smallest."""
    best = (max if largest else min)(ordered(row[1], 1, of.types) for row, _ in rows)
    first = (row[0] for row, _ in rows if ordered(row[1], 1, of.types) == best)
    return min(first, key=lambda value: ordered(value, 0, of.types))


def _mode(rows: Counted) -> Any:
    """What is there most often; of several the first in the order."""
    counts: dict[Any, int] = {}
    for row, n in rows:
        counts[itself(row[0])] = counts.get(itself(row[0]), 0) + n
    most = max(counts.values())
    return next(row[0] for row, _ in rows if counts[itself(row[0])] == most)


def _between(rows: Counted, fraction: float) -> float:
    """percentile_cont: the value at a part of the way through the order, between two values if need be."""
    values = _values(rows)
    place = fraction * (len(values) - 1)
    low, high = math.floor(place), math.ceil(place)
    first, second = float(values[low]), float(values[high])
    return first if low == high else first + (place - low) * (second - first)


def _at(rows: Counted, fraction: float) -> Any:
    """percentile_disc: the first value that has at least that part of all up to it."""
    values = _values(rows)
    return values[max(math.ceil(fraction * len(values)) - 1, 0)]


def _product(rows: Counted) -> float:
    result = 1.0
    for row, n in rows:
        result *= float(row[0]) ** n
    return result


def _bits(operation: Callable[[int, int], int]) -> Callable[[Counted, Folding], int]:
    return lambda rows, _: reduce(operation, (row[0] for row, n in rows))


def _odd(rows: Counted) -> int:
    return reduce(lambda a, b: a ^ b, (row[0] for row, n in rows if n % 2), 0)


# ---- pairs of numbers: regr_...(y, x)


@dataclass(frozen=True)
class Pairs:
    """What is needed of a group's pairs: how many there are, their means, and the sums of squared differences."""

    n: int
    y: float
    x: float
    yy: float
    xx: float
    xy: float


def pairs(rows: Counted) -> Pairs:
    """Sums of pairs, from their differences to the first one.

    >>> pairs([((1, 2), 1), ((3, 6), 1)])
    Pairs(n=2, y=2.0, x=4.0, yy=2.0, xx=8.0, xy=4.0)
    """
    n = sum(count for _, count in rows)
    y0, x0 = float(rows[0][0][0]), float(rows[0][0][1])
    away = [(float(row[0]) - y0, float(row[1]) - x0, count) for row, count in rows]
    try:
        dy = math.fsum(y * c for y, _, c in away) / n
        dx = math.fsum(x * c for _, x, c in away) / n
        yy = math.fsum((y - dy) ** 2 * c for y, _, c in away)
        xx = math.fsum((x - dx) ** 2 * c for _, x, c in away)
        xy = math.fsum((y - dy) * (x - dx) * c for y, x, c in away)
    except (ValueError, OverflowError):  # infinite values have no differences
        return Pairs(n, math.nan, math.nan, math.nan, math.nan, math.nan)
    return Pairs(n, y0 + dy, x0 + dx, yy, xx, xy)


def _corr(p: Pairs) -> float | None:
    if p.xx == 0 or p.yy == 0:
        return None
    product = p.xx * p.yy
    both = math.sqrt(product) if 1e-300 < product < math.inf else math.sqrt(p.xx) * math.sqrt(p.yy)
    return max(-1.0, min(1.0, p.xy / both))


def _r2(p: Pairs) -> float | None:
    if p.xx == 0:
        return None
    return 1.0 if p.yy == 0 else p.xy * p.xy / (p.xx * p.yy)


def _slope(p: Pairs) -> float | None:
    return None if p.xx == 0 else p.xy / p.xx


def _intercept(p: Pairs) -> float | None:
    return None if p.xx == 0 else p.y - p.x * p.xy / p.xx


PAIRS: dict[str, Callable[[Pairs], float | None]] = {
    "covar_pop": lambda p: p.xy / p.n,
    "covar_samp": lambda p: p.xy / (p.n - 1) if p.n > 1 else None,
    "corr": _corr,
    "regr_avgx": lambda p: p.x,
    "regr_avgy": lambda p: p.y,
    "regr_sxx": lambda p: p.xx,
    "regr_syy": lambda p: p.yy,
    "regr_sxy": lambda p: p.xy,
    "regr_slope": _slope,
    "regr_intercept": _intercept,
    "regr_r2": _r2,
}
"""Aggregates of two numbers, y and x."""


def _of_pairs(function: Callable[[Pairs], float | None]) -> Callable[[Counted, Folding], float | None]:
    return lambda rows, _: function(pairs(rows))


FOLDS: dict[str, Callable[[Counted, Folding], Any]] = {
    "arg_min": lambda rows, of: _extreme(rows, of, largest=False),
    "arg_max": lambda rows, of: _extreme(rows, of, largest=True),
    "first": lambda rows, _: rows[0][0][0],
    "last": lambda rows, _: rows[-1][0][0],
    "mode": lambda rows, _: _mode(rows),
    "median": lambda rows, _: _between(rows, 0.5),
    "percentile_cont": lambda rows, of: _between(rows, of.fraction),
    "percentile_disc": lambda rows, of: _at(rows, of.fraction),
    "product": lambda rows, _: _product(rows),
    "bit_and": _bits(lambda a, b: a & b),
    "bit_or": _bits(lambda a, b: a | b),
    "bit_xor": lambda rows, _: _odd(rows),
    **{name: _of_pairs(function) for name, function in PAIRS.items()},
}
"""Every aggregate by name: of its rows without NULLs, at least one, in order."""
