"""Early termination of LIMIT: the first rows in the order of an index need only a prefix of the index.

`SELECT a, b FROM t WHERE ... LIMIT 10` means the first ten in the order of their codes (even without an order the
result is unique), and ORDER BY a LIMIT 10 those with the least a. If a is the first column of the arrangement, rows up
to some value of a are enough, as soon as ten of them remain; if not, more are read.

Only if nothing can fail: the rows that are not read could have been errors.
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
"""Maximum LIMIT: beyond, reading everything is as good."""

_FIRST, _MORE = 8, 16
"""How many times the requested rows are read at first, and then."""

_BY_CODE = ("int", "decimal", "date", "timestamp", "bool")


@dataclass(frozen=True)
class Early:
    """A query that a part of one arrangement may answer."""

    leaf: plan.Node
    enough: int
    """number of result rows that shows that it is complete"""
    first: int
    """number of rows to read first"""

    def parts(self, batches: list[Batch]) -> list[tuple[int | None, int]]:
        """(the largest value of the first column, None for all; the number of rows that may be), increasing."""
        found: list[tuple[int | None, int]] = []
        largest, count = max(batches, key=lambda b: b.rows, default=None), self.first
        while largest is not None and count < largest.rows:
            found.append((int(largest.column(0)[count]), count))
            count *= _MORE
        return [*found, (None, 0)]


def found(root: plan.Node, order: Callable[[plan.Node], tuple[int, ...] | None], interner: Interner) -> Early | None:
    """How a plan can stop early; `order` returns the column order of an arrangement of a node, if there is one."""
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
    """The rows of a batch whose first column is at most a value."""
    if value is None or not batch.rows:
        return batch
    rows = int(np.searchsorted(batch.column(0), value, "right"))
    return Batch(rows, batch.cap, batch.data, batch.times, batch.diffs, batch.address)
