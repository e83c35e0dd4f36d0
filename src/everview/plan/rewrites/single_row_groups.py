"""Replaces an aggregate over groups of one row each by that row.

    SELECT id, min(price) FROM item GROUP BY id      item has the key id: one row for each group

This also applies to "the least of all paths" once only the least are kept: they are unique for each end already. Groups
are single if the grouping columns contain a key (`everview.plan.keys`); then no row occurs twice. The minimum, maximum
and sum of one value are the value; a count is 1, or 0 for NULL.
"""

from __future__ import annotations

from collections.abc import Container

from everview.expr.functions import call
from everview.expr.nodes import ColumnRef, Expr, Literal
from everview.plan import nodes as plan
from everview.plan.keys import unique_columns
from everview.plan.rewrites.traversal import everywhere
from everview.types import INT


def without_single_groups(node: plan.Node, arranged: Container[plan.Node] = ()) -> plan.Node:
    """The same rows without aggregates of single rows.

    >>> item = plan.Table(0, (INT, INT), key=(0,))
    >>> least = plan.Reduce(item, (0,), (plan.Aggregate("min", 1, INT),))
    >>> without_single_groups(least) == plan.Project(item, (ColumnRef(INT, 0), ColumnRef(INT, 1)))
    True
    """
    return everywhere(node, _changed, arranged)


def _changed(node: plan.Node) -> plan.Node:
    if not isinstance(node, plan.Reduce) or not node.keys:
        return node
    if not any(key <= set(node.keys) for key in unique_columns(node.child)):
        return node
    below = node.child.types
    values = [_of_one(a, below) for a in node.aggregates]
    if any(v is None for v in values):
        return node
    made = plan.Project(
        node.child, (*(ColumnRef(below[k], k) for k in node.keys), *(v for v in values if v is not None))
    )
    return made if made.types == node.types else node


def _of_one(aggregate: plan.Aggregate, types: plan.Types) -> Expr | None:
    """An aggregate of one row; None if that is not known to be equivalent."""
    if aggregate.kind in ("count", "count_distinct"):
        if aggregate.column is None or not types[aggregate.column].nullable:
            return Literal(aggregate.type, 1)
        there = call("is_not_null", ColumnRef(types[aggregate.column], aggregate.column))
        return call("case", there, Literal(INT, 1), Literal(INT, 0))
    if aggregate.kind not in ("min", "max", "sum") or aggregate.column is None:
        return None
    own = types[aggregate.column]
    same = own.kind not in ("float", "interval") and aggregate.type.optional(own.nullable) == own
    return ColumnRef(aggregate.type, aggregate.column) if same and aggregate.type.nullable >= own.nullable else None
