"""The output of one group: aggregates, first rows, window functions, functions of whole groups.

The same rules as in `everview.kernels.reduce` and `everview.dataflow.reductions`, for one group at a time and from
scratch: sums are exact and rounded once, NULLs are ignored, ties are broken by the codes of the remaining columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from operator import itemgetter
from typing import Any

import numpy as np

from everview.codes.interner import Interner
from everview.codes.packed import order_key
from everview.codes.values import decoder, encode_value
from everview.dataflow import python_operators as pythonic
from everview.dataflow.windows import windows
from everview.plan import nodes as plan
from everview.plan.windows import Window
from everview.types import INTERNED, NULL, DataType
from everview.why.column_blocks import Bag, Row

Grouping = plan.Reduce | plan.TopK | plan.PythonReduce | Window
"""Nodes that process groups."""

GROUPINGS = (plan.Reduce, plan.TopK, plan.PythonReduce, Window)


def groups(bag: Bag, keys: tuple[int, ...]) -> dict[Row, Bag]:
    """Rows by their key columns.

    >>> groups({(1, 2): 1, (1, 3): 2, (4, 5): 1}, (0,))
    {(1,): {(1, 2): 1, (1, 3): 2}, (4,): {(4, 5): 1}}
    """
    found: dict[Row, Bag] = {}
    if len(keys) == 1:
        place = keys[0]
        for row, count in bag.items():
            found.setdefault((row[place],), {})[row] = count
        return found
    key_of: Callable[[Row], Row] = itemgetter(*keys) if keys else lambda _: ()
    for row, count in bag.items():
        found.setdefault(key_of(row), {})[row] = count
    return found


def output(node: Grouping, key: Row, group: Bag, interner: Interner) -> Bag:
    """The output rows of a group, with the columns of the node."""
    if isinstance(node, plan.Reduce):
        values = tuple(aggregate(a, node.child.types, group, interner) for a in node.aggregates)
        return {(*key, *values): 1}
    if isinstance(node, plan.TopK):
        return _top(node, group, interner)
    child = len(node.child.types)
    order = plan.keys_first(node.keys, child)
    if isinstance(node, plan.PythonReduce):
        made = _asked(pythonic.reduction(node, interner), node.keys, order, group, len(node.types))
        return made
    made = _asked(windows(node, interner), node.keys, order, group, len(node.types))
    place = [order.index(c) for c in range(child)] + list(range(child, len(node.types)))
    return {tuple(row[p] for p in place): count for row, count in made.items()}


# aggregates


def aggregate(a: plan.Aggregate, types: plan.Types, group: Bag, interner: Interner) -> int:
    """The code of one aggregate of a group."""
    if a.column is None:
        return sum(group.values())
    declared, column = types[a.column], a.column
    values = [(row[column], n) for row, n in group.items() if not (declared.nullable and row[column] == NULL)]
    count = sum(n for _, n in values)
    if a.kind == "count":
        return count
    if a.kind == "count_distinct":
        return len({c for c, n in _summed(values) if n > 0})
    if a.kind in ("min", "max"):
        present = [c for c, n in values if n > 0]
        return extreme(a.kind == "min", declared, present, interner) if present else NULL
    if not count:
        return NULL
    total = _total(declared, values, interner)
    if a.kind == "sum":
        return encode_value(a.type, total, interner) if declared.kind == "float" else int(total)
    return encode_value(a.type.optional(False), _average(declared, total, count), interner)


def _summed(values: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    totals: dict[int, int] = {}
    for code, n in values:
        totals[code] = totals.get(code, 0) + n
    return list(totals.items())


def extreme(least: bool, declared: DataType, codes: Iterable[int], interner: Interner) -> int:
    """The least or largest of some codes, by value."""
    best = min if least else max
    if declared.kind not in INTERNED:
        return best(codes)
    decode, key = decoder(declared.optional(False), interner), order_key(declared)
    return best(codes, key=lambda code: decode(code) if key is None else key(decode(code)))


def _total(declared: DataType, values: list[tuple[int, int]], interner: Interner) -> Any:
    """The sum: of floats as a float, of all others as the sum of their codes."""
    if declared.kind != "float":
        return sum(code * n for code, n in values)
    decode = decoder(declared.optional(False), interner)
    floats = [(decode(code), n) for code, n in values]
    if all(math.isfinite(v) for v, _ in floats):
        return float(sum((Fraction(v) * n for v, n in floats), Fraction(0)))
    odd = {v for v, _ in floats if not math.isfinite(v) and not math.isnan(v)}
    return next(iter(odd)) if len(odd) == 1 and not any(math.isnan(v) for v, _ in floats) else math.nan


def _average(declared: DataType, total: Any, count: int) -> float:
    """As computed by the kernel, which divides halves of the sum by a power of ten first."""
    if declared.kind == "float":
        return float(total) / float(count)
    unit = 1.0
    for _ in range(declared.scale):
        unit *= 10.0
    high, low = total >> 32, total & 0xFFFFFFFF
    return (float(high) * 4294967296.0 + float(low)) / unit / float(count)


# first rows


def in_order(node: plan.TopK, group: Bag, interner: Interner) -> list[tuple[Row, int]]:
    """The present rows of a group, in the order of a top-k."""
    rest = [c for c in range(len(node.types)) if c not in node.keys]
    found = sorted(((row, n) for row, n in group.items() if n > 0), key=lambda item: [item[0][c] for c in rest])
    for column, descending in reversed(node.order):
        declared = node.child.types[column]
        known = [item for item in found if not (declared.nullable and item[0][column] == NULL)]
        known.sort(key=_sort_key(column, declared, interner), reverse=descending)
        found = known + [item for item in found if declared.nullable and item[0][column] == NULL]
    return found


def _sort_key(column: int, declared: DataType, interner: Interner) -> Callable[[tuple[Row, int]], Any]:
    if declared.kind not in INTERNED:
        return lambda item: item[0][column]
    decode, key = decoder(declared.optional(False), interner), order_key(declared)
    return lambda item: decode(item[0][column]) if key is None else key(decode(item[0][column]))


def _top(node: plan.TopK, group: Bag, interner: Interner) -> Bag:
    found: Bag = {}
    at, stop = 0, node.offset + node.limit
    for row, n in in_order(node, group, interner):
        kept = min(at + n, stop) - max(at, node.offset)
        if kept > 0:
            found[row] = kept
        at += n
    return found


# what the driver computes


def _asked(run: Callable[[Any], Any], keys: tuple[int, ...], order: tuple[int, ...], group: Bag, width: int) -> Bag:
    """Call a driver reduction for one group, in its own format."""
    if not group:
        return {}
    rows = sorted((tuple(row[c] for c in order), n) for row, n in group.items())
    requests = np.zeros((1 + len(rows), 2 + len(order)), dtype=np.int64)
    requests[0, 2 : 2 + len(keys)] = rows[0][0][: len(keys)]
    requests[1:, 0] = [n for _, n in rows]
    requests[1:, 2:] = np.array([row for row, _ in rows], dtype=np.int64).reshape(len(rows), len(order))
    found: Bag = {}
    for count, _, *values in run(requests).tolist():
        if count:
            row = tuple(values[:width])
            found[row] = found.get(row, 0) + count
    return found
