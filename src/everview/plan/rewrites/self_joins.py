"""Replaces a self-join on a key by the rows themselves.

    SELECT x.a, y.b FROM k x JOIN k y ON x.id = y.id        SELECT a, b FROM k

Such joins arise from views of views, when each has taken other columns of one table. A row with a unique key has one
match, itself. The join is therefore a projection, and the conditions of both sides are conditions on one row, as is any
further comparison like `x.a = y.b`. NULL joins nothing, not even itself.

Only conditions and columns that cannot fail are merged: each side's are evaluated for rows that the other side might
have filtered out. The only constraint it relies on is the key, which a table has for life.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from everview.expr.functions import call, conjunction
from everview.expr.nodes import ColumnRef, Expr
from everview.plan import nodes as plan
from everview.plan.keys import unique_columns
from everview.plan.rewrites.traversal import everywhere, never_fails

MOST_LEVELS = 40
"""Maximum number of projections and filters considered."""


def without_joins_of_itself(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows without such self-joins.

    >>> from everview.types import INT
    >>> k = plan.Table(0, (INT, INT), key=(0,))
    >>> x, y = ColumnRef(INT, 0), ColumnRef(INT, 1)
    >>> without_joins_of_itself(plan.Join(k, k, (0,), (0,))) == plan.Project(k, (x, y, x, y))
    True
    >>> other = plan.Join(k, k, (1,), (1,))
    >>> without_joins_of_itself(other) == other
    True
    """
    return everywhere(node, lambda n: _changed(n, arranged) if isinstance(n, plan.Join) else n, arranged)


@dataclass(frozen=True)
class _Side:
    """A side of a join as columns of rows below it, and conditions on them."""

    source: plan.Node
    columns: tuple[Expr, ...]
    tested: tuple[Expr, ...] = ()


def _side(node: plan.Node, arranged: Container[plan.Node]) -> _Side:
    side = _Side(node, tuple(ColumnRef(t, c) for c, t in enumerate(node.types)))
    for _ in range(MOST_LEVELS):
        source = side.source
        if source in arranged:
            break
        if isinstance(source, plan.Filter) and never_fails(source.predicate):
            side = _Side(source.child, side.columns, (*side.tested, source.predicate))
        elif isinstance(source, plan.Project) and all(never_fails(e) for e in source.exprs):
            mapping = dict(enumerate(source.exprs))
            columns, tested = (tuple(e.remap(mapping) for e in part) for part in (side.columns, side.tested))
            side = _Side(source.child, columns, tested)
        else:
            break
    return side


def _changed(join: plan.Join, arranged: Container[plan.Node]) -> plan.Node:
    left, right = _side(join.left, arranged), _side(join.right, arranged)
    if left.source != right.source:
        return join
    same: set[int] = set()
    tested = dict.fromkeys((*left.tested, *right.tested))
    for a, b in zip(join.left_keys, join.right_keys, strict=True):
        mine, other = left.columns[a], right.columns[b]
        if not isinstance(mine, ColumnRef) or not isinstance(other, ColumnRef):
            return join
        if mine.index == other.index:
            same.add(mine.index)
            if left.source.types[mine.index].nullable:
                tested[call("is_not_null", ColumnRef(left.source.types[mine.index], mine.index))] = None
        elif mine.type.kind != other.type.kind or mine.type.kind == "float":
            return join  # a condition compares differently from a join
        else:
            tested[call("eq", *(ColumnRef(left.source.types[c.index], c.index) for c in (mine, other)))] = None
    if not any(key <= same for key in unique_columns(left.source)):
        return join
    rows = plan.Filter(left.source, conjunction(list(tested))) if tested else left.source
    outputs = (*left.columns, *right.columns)
    if any(e.type != t for e, t in zip(outputs, join.types, strict=True)):
        return join
    return plan.Project(rows, outputs)
