"""LIMIT that stops early: the first rows in the order of an index need no more than the first rows of the index.

`SELECT a, b FROM t WHERE ... LIMIT 10` means the first ten in the order of their codes (without an order, too, there is
one answer), and ORDER BY a LIMIT 10 those with the least a. If a is the first column of the arrangement that is read,
rows up to some value of a are enough, as soon as ten of them are left; if not, more are taken.

Only where nothing can fail: the rows that are not looked at could have been errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from everview.codes.interner import Interner
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.once.expressions import cannot_fail
from everview.once.leaves import Batch
from everview.plan import nodes as plan

MOST_ROWS = 10_000
"""Rows that a LIMIT may ask for: beyond, reading everything is as good."""

_FIRST, _MORE = 8, 16
"""How many times as many rows are taken at first, and then, as are asked for."""

_BY_CODE = ("int", "decimal", "date", "timestamp", "bool")


@dataclass(frozen=True)
class Early:
    """A question that a part of one arrangement may answer."""

    leaf: plan.Node
    enough: int
    """rows of the answer that show that it is complete"""
    first: int
    """rows to take at first"""

    def parts(self, batches: list[Batch]) -> list[tuple[int | None, int]]:
        """(the largest value of the first column, None for all; how many rows that may be), ever more."""
        found: list[tuple[int | None, int]] = []
        largest, count = max(batches, key=lambda b: b.rows, default=None), self.first
        while largest is not None and count < largest.rows:
            found.append((int(largest.column(0)[count]), count))
            count *= _MORE
        return [*found, (None, 0)]


def found(root: plan.Node, order: Callable[[plan.Node], tuple[int, ...] | None], interner: Interner) -> Early | None:
    """How a plan can stop early; `order` gives the columns of an arrangement of a node, if one is kept."""
    node = root
    while isinstance(node, plan.Project) and all(isinstance(e, ColumnRef | Literal) for e in node.exprs):
        node = node.child
    if not isinstance(node, plan.TopK) or node.keys or not 0 < node.offset + node.limit <= MOST_ROWS:
        return None
    column = node.order[0][0] if node.order else 0
    if node.order and (node.order[0][1] or not _is_by_code(node, column)):
        return None
    below = node.child
    while order(below) is None:
        if isinstance(below, plan.Filter) and cannot_fail(below.predicate, interner):
            below = below.child
        elif isinstance(below, plan.Project) and all(cannot_fail(e, interner) for e in below.exprs):
            source: Expr = below.exprs[column]
            if not isinstance(source, ColumnRef):
                return None
            column, below = source.index, below.child
        else:
            return None
    kept = order(below)
    if not kept or kept[0] != column:
        return None
    return Early(below, node.limit, _FIRST * (node.offset + node.limit))


def _is_by_code(node: plan.TopK, column: int) -> bool:
    declared = node.types[column]
    return declared.kind in _BY_CODE and not declared.nullable


def up_to(batch: Batch, value: int | None) -> Batch:
    """The rows of a batch whose first column is not larger than a value."""
    if value is None or not batch.rows:
        return batch
    rows = int(np.searchsorted(batch.column(0), value, "right"))
    return Batch(rows, batch.cap, batch.data, batch.times, batch.diffs, batch.address)
